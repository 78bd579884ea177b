"""A writer that is caught in the middle of a line."""

from __future__ import annotations

import pytest

from support.logs import Followed, write


@pytest.fixture
def log(tmp_path):
    return tmp_path / "app.jsonl"


@pytest.fixture
def followed(log):
    followed = Followed(log, max_line=1000)
    yield followed
    followed.follower.close()


def test_a_half_line_waits_for_its_newline(log, followed):
    write(log, "one\ntw")
    assert followed.poll() == ["one"]
    assert followed.poll() == []
    write(log, "o\nth")
    assert followed.poll() == ["two"]


def test_a_character_that_is_cut_in_two_is_whole_in_its_line(log, followed):
    content = "año\n".encode()
    log.write_bytes(content[:2])
    assert followed.poll() == []
    log.write_bytes(content)
    assert followed.poll() == ["año"]


def test_a_line_over_the_cap_is_told_once_and_the_next_is_whole(log, followed):
    write(log, "x" * 1001)
    assert [(len(line.data), line.whole) for line in followed.lines()] == [(1000, False)]
    for _ in range(3):
        write(log, "x" * 5000)
        assert followed.lines() == []
    write(log, "\nnext\n")
    assert followed.poll() == ["next"]


def test_a_pause_of_any_length_in_a_line_loses_nothing(log, followed):
    write(log, "be")
    followed.poll()
    followed.clock.advance(100_000)
    followed.poll()
    write(log, "gun\n")
    assert followed.poll() == ["begun"]


def test_a_write_that_changes_neither_size_nor_time_of_the_last_look_is_read(log, followed):
    write(log, "one\n")
    assert followed.poll() == ["one"]
    write(log, "two\n")
    followed.files.frozen[str(log)] = followed.files.stat(str(log))  # a file system of coarse times
    assert followed.poll() == ["two"]
    write(log, "three\n")
    assert followed.poll() == ["three"]
