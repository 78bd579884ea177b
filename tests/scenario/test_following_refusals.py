"""A file system that refuses: modes, directories, and things that are no files."""

from __future__ import annotations

import bz2
import gzip
import io
import logging
import lzma
import os
import socket
import zipfile
from pathlib import Path

import pytest

from support.logs import Followed, write


def test_a_log_that_may_not_be_opened_is_counted_and_tried_again(log, followed):
    write(log, "one\n")
    followed.files.refused.add(str(log))
    assert followed.poll() == []
    assert followed.follower.open_errors == 1
    followed.files.refused.clear()
    followed.clock.advance(60)
    assert followed.poll() == ["one"]


@pytest.mark.parametrize("name", ["app.jsonl", "app.jsonl*"])
def test_tries_come_ever_more_seldom_and_are_told_once(tmp_path, log, name, caplog):
    write(log, "one\n")
    followed = Followed(tmp_path / name)
    followed.files.refused.add(str(log))
    with caplog.at_level(logging.INFO):
        for _ in range(300):
            followed.poll()
    assert 10 <= followed.follower.open_errors <= 20
    assert [entry.getMessage() for entry in caplog.records] == ["cannot read a request log"]
    assert caplog.records[0].fields == {"path": str(log), "error": "Permission denied"}
    followed.follower.close()


def test_a_log_that_is_not_there_is_told_once_each_time_that_it_goes(log, caplog):
    followed = Followed(log)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            followed.poll()
            followed.poll()
            write(log, "one\n")
            followed.poll()
            log.unlink()
    assert [entry.getMessage() for entry in caplog.records] == ["no file yet"] * 3
    followed.follower.close()


def test_a_change_of_its_mode_is_reason_to_try_at_once(log, followed):
    write(log, "one\n")
    followed.files.refused.add(str(log))
    for _ in range(100):
        followed.poll()
    followed.files.refused.clear()
    log.chmod(0o644)
    assert followed.poll() == ["one"]


def test_a_log_that_may_not_be_opened_makes_the_lag_grow(log, followed):
    write(log, "one\n")
    followed.poll()
    assert followed.follower.lag() == 0
    followed.files.refused.add(f"{log}.1")
    write(log.with_suffix(".jsonl.1"), "two\n")
    followed.poll()
    followed.clock.advance(100)
    assert followed.follower.lag() == 100
    log.with_suffix(".jsonl.1").unlink()
    followed.poll()
    assert followed.follower.lag() == 0


def test_a_log_that_cannot_be_looked_at_for_a_while_is_read_on(tmp_path):
    log = tmp_path / "app.jsonl"
    followed = Followed(log)
    write(log, "one\n")
    followed.poll()
    followed.files.hidden.add(str(log))
    write(log, "two\n")
    assert followed.poll() == ["two"]  # it is open, after all
    assert followed.follower.open_errors == 1
    assert followed.follower.lag() == 0
    followed.clock.advance(10)
    assert followed.follower.lag() == 10
    followed.files.hidden.clear()
    followed.poll()
    assert followed.follower.lag() == 0
    followed.follower.close()


def test_a_disk_that_fails_is_counted_and_reading_goes_on_where_it_was(log, followed):
    write(log, "one\n")
    write(log.with_suffix(".jsonl.1"), "neighbour\n")
    assert sorted(followed.poll()) == ["neighbour", "one"]
    write(log, "two\n")
    write(log.with_suffix(".jsonl.1"), "heard\n")
    followed.files.broken.add(str(log))
    assert followed.poll() == ["heard"]
    assert followed.follower.open_errors == 1
    followed.files.broken.clear()
    followed.clock.advance(60)
    assert followed.poll() == ["two"]


def test_a_refused_log_does_not_hold_up_its_neighbours(log, followed):
    write(log, "one\n")
    write(log.with_suffix(".jsonl.1"), "two\n")
    followed.files.refused.add(str(log))
    assert followed.poll() == ["two"]


def test_a_directory_that_may_not_be_listed_is_counted_and_tried_again(tmp_path, log, followed):
    write(log, "one\n")
    followed.files.refused.add(str(tmp_path / "app.jsonl*"))
    assert followed.poll() == []
    assert followed.follower.open_errors == 1
    followed.files.refused.clear()
    followed.clock.advance(60)
    assert followed.poll() == ["one"]


def test_what_is_no_regular_file_is_passed_over_and_told_once(tmp_path, log, followed, caplog):
    write(log, "one\n")
    (tmp_path / "app.jsonl.directory").mkdir()
    os.mkfifo(tmp_path / "app.jsonl.fifo")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(os.path.relpath(tmp_path / "app.jsonl.socket"))
    with caplog.at_level(logging.INFO):
        assert followed.poll() == ["one"]
        assert followed.poll() == []
    listener.close()
    told = sorted(Path(entry.fields["path"]).name for entry in caplog.records)
    assert told == ["app.jsonl.directory", "app.jsonl.fifo", "app.jsonl.socket"]


def test_what_comes_back_is_told_again(tmp_path, followed, caplog):
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            os.mkfifo(tmp_path / "app.jsonl.fifo")
            followed.poll()
            (tmp_path / "app.jsonl.fifo").unlink()
            followed.poll()
    assert [entry.getMessage() for entry in caplog.records if "regular" in entry.getMessage()] == [
        "not a regular file"
    ] * 2


def zipped():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("one", "one\n")
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"\x28\xb5\x2f\xfd",  # zstd: RFC 8878, 3.1.1
        b"\x04\x22\x4d\x18",  # lz4: its frame format
        b"\x1f\x9d\x90",  # compress
        lzma.compress(b"one\n"),
        bz2.compress(b"one\n"),
        zipped(),
    ],
)
def test_what_other_programs_compressed_is_passed_over(log, followed, content):
    write(log, "one\n")
    followed.poll()
    archive = log.with_suffix(".jsonl.2")
    archive.touch()
    followed.poll()
    archive.write_bytes(content[:1])
    assert followed.poll() == []
    archive.write_bytes(content + b"\n")
    opens = followed.files.opens
    for _ in range(5):
        assert followed.poll() == []
    assert followed.files.opens == opens
    assert followed.files.opened == 1


def test_a_log_that_gets_the_inode_of_a_compressed_one_is_read(log, followed):
    log.write_bytes(gzip.compress(b"one\n" * 2))
    assert followed.poll() + followed.poll() + followed.poll() == ["one"] * 2
    write(log, "two\n", mode="w")
    assert followed.poll() == ["two"]


def test_a_path_with_a_nul_is_no_log_and_no_end(tmp_path):
    followed = Followed(str(tmp_path / "app\0.jsonl"))
    assert followed.poll() == []
    followed.follower.close()
