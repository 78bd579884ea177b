"""A log that is deleted, and comes back or does not."""

from __future__ import annotations

import pytest

from support.logs import Followed, write


@pytest.fixture
def log(tmp_path):
    return tmp_path / "app.jsonl"


@pytest.fixture
def followed(log):
    followed = Followed(log)
    yield followed
    followed.follower.close()


def test_what_was_written_before_the_deletion_is_read_after_it(log, followed):
    write(log, "one\n")
    followed.poll()
    write(log, "two\n")
    log.unlink()
    assert followed.poll() == ["two"]


def test_a_log_that_comes_back_is_read_from_its_first_byte(log, followed):
    write(log, "one\n" * 10)
    followed.poll()
    log.unlink()
    followed.poll()
    write(log, "two\n")
    assert followed.poll() == ["two"]
    assert followed.follower.counts.rotations == 1


def test_a_log_that_comes_back_long_after_is_read_too(log, followed):
    write(log, "one\n")
    followed.poll()
    log.unlink()
    for _ in range(100):
        followed.poll()
    assert followed.files.opened == 0  # its space on the disk is free again
    write(log, "two\n")
    assert followed.poll() == ["two"]


def test_the_directory_may_go_and_come_back_too(tmp_path):
    log = tmp_path / "logs" / "app.jsonl"
    followed = Followed(log)
    assert followed.poll() == []
    log.parent.mkdir()
    write(log, "one\n")
    assert followed.poll() == ["one"]
    log.unlink()
    log.parent.rmdir()
    assert followed.poll() == []
    log.parent.mkdir()
    write(log, "two\n")
    assert followed.poll() == ["two"]
    followed.follower.close()
