"""A follower that is stopped and started: positions carried over, whatever happened meanwhile."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from support.logs import Followed, write
from vllm_observe.records.position import Positions


def test_reading_goes_on_where_it_was(log, followed):
    write(log, "one\ntw")
    followed.poll()
    followed.restart()
    write(log, "o\nthree\n")
    assert followed.poll() == ["two", "three"]
    followed.restart()
    assert followed.poll() == []


def test_positions_survive_being_written_down(log, followed):
    write(log, "one\n")
    followed.poll()
    written = msgspec.json.encode(followed.follower.positions())
    second = Followed(log)
    second.follower.restore(msgspec.json.decode(written, type=Positions))
    write(log, "two\n")
    assert second.poll() == ["two"]
    second.follower.close()


def test_a_log_that_was_renamed_meanwhile_is_read_to_its_end(log, followed):
    write(log, "one\n")
    followed.poll()
    write(log, "two\n")
    log.rename(log.with_suffix(".jsonl.1"))
    write(log, "three\n")
    followed.restart()
    assert sorted(followed.poll()) == ["three", "two"]


def test_a_log_that_was_copied_and_truncated_meanwhile_is_read_to_its_end(log, followed):
    write(log, "one\n")
    followed.poll()
    write(log, "two\n")
    shutil.copyfile(log, log.with_suffix(".jsonl.1"))
    write(log, "three\n", mode="w")
    followed.restart()
    assert sorted(followed.poll()) == ["three", "two"]


def test_a_log_that_moved_to_another_disk_is_known_by_its_content(log, followed):
    write(log, "one\n")
    followed.poll()
    followed.files.inodes[str(log)] = 12345
    write(log, "two\n")
    followed.restart()
    assert followed.poll() == ["two"]


@pytest.mark.parametrize("content", ["L4\n", "line four\n", "a line much longer than all that was read\n"])
def test_another_file_with_the_same_inode_is_read_from_its_first_byte(log, followed, content):
    write(log, "line one\n")
    followed.poll()
    write(log, content, mode="w")  # in place, so the inode stays
    followed.restart()
    assert followed.poll() == content.splitlines()


def test_a_copy_is_known_after_a_restart_as_well(log, followed):
    write(log, "one\ntwo\n")
    followed.poll()
    shutil.copyfile(log, log.with_suffix(".jsonl.1"))
    write(log, "three\n", mode="w")
    followed.restart()
    assert followed.poll() == ["three"]
    followed.restart()
    assert followed.poll() == []


def test_a_file_that_is_gone_for_a_whole_run_is_remembered(log, followed):
    write(log, "one\n")
    followed.poll()
    away = log.with_name("away")
    log.rename(away)
    for _ in range(3):
        followed.restart()
        followed.poll()
    away.rename(log)
    write(log, "two\n")
    assert followed.poll() == ["two"]


def test_positions_do_not_grow_with_the_number_of_restarts(tmp_path, followed):
    for number in range(5):
        write(tmp_path / f"app.jsonl.{number}", f"{number}\n")
    followed.poll()
    for _ in range(5):
        followed.restart()
        assert followed.poll() == []
    assert len(followed.follower.positions().files) == 5


def test_a_line_in_pieces_is_whole_after_a_restart(log, followed):
    stamp = "2026-03-02T12:30:00Z"
    write(log, f"{stamp} stdout P aa\n{stamp} stderr F heard\n{stamp} stdout P bb\n")
    assert followed.poll() == ["heard"]
    followed.restart()
    write(log, f"{stamp} stdout F cc\n")
    assert followed.poll() == ["aabbcc"]
