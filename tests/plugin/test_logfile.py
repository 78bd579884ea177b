from __future__ import annotations

import multiprocessing
import os

import pytest

from vllm_observe.plugin.logfile import LogFile, open_first


def log_at(path, max_bytes=1000, files=2, head=lambda: b""):
    return LogFile(path, max_bytes=max_bytes, files=files, head=head)


def test_lines_are_appended_to_what_is_there(tmp_path):
    path = tmp_path / "new" / "requests.jsonl"
    log_at(path).append(b"1\n2\n")
    log_at(path).append(b"3\n")
    assert path.read_bytes() == b"1\n2\n3\n"


def test_a_log_is_rotated_before_it_grows_too_large_and_the_oldest_goes(tmp_path):
    path = tmp_path / "log"
    log = log_at(path, max_bytes=4)
    for number in range(4):
        log.append(b"%d%d\n" % (number, number))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "log": b"33\n",
        "log.1": b"22\n",
        "log.2": b"11\n",
    }


def test_lines_that_are_larger_than_a_whole_log_are_written_all_the_same(tmp_path):
    log = log_at(tmp_path / "log", max_bytes=4)
    assert log.append(b"123456789\n") == b""
    log.append(b"1\n")
    assert (tmp_path / "log.1").read_bytes() == b"123456789\n"


def test_a_later_file_begins_with_the_head_and_the_first_does_not(tmp_path):
    log = log_at(tmp_path / "log", max_bytes=8, head=lambda: b"head\n")
    log.append(b"11\n22\n")
    log.append(b"33\n")
    assert (tmp_path / "log.1").read_bytes() == b"11\n22\n"
    assert (tmp_path / "log").read_bytes() == b"head\n33\n"


def test_a_half_line_that_somebody_left_is_ended_first(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b'{"ts":1}\n{"ts"')
    log_at(path).append(b'{"ts":2}\n')
    assert path.read_bytes() == b'{"ts":1}\n{"ts"\n{"ts":2}\n'


@pytest.mark.parametrize("action", ["rename", "remove"])
def test_a_log_that_somebody_else_took_away_is_begun_again(tmp_path, action):
    path = tmp_path / "log"
    log = log_at(path, head=lambda: b"head\n")
    log.append(b"1\n")
    path.rename(tmp_path / "old") if action == "rename" else path.unlink()
    log.append(b"2\n")
    assert path.read_bytes() == b"head\n2\n"


def test_what_does_not_fit_on_the_disk_is_answered(tmp_path, monkeypatch):
    log = log_at(tmp_path / "log")
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    assert log.append(b"12\n34\n") == b"34\n"


def write_many(path, name):
    log = log_at(path, max_bytes=2000, files=1000)
    for number in range(400):
        log.append(b"%s-%d\n" % (name, number))


def test_processes_that_share_a_log_and_rotate_it_lose_and_double_nothing(tmp_path):
    path = tmp_path / "log"
    processes = [
        multiprocessing.get_context("spawn").Process(target=write_many, args=(path, name))
        for name in (b"one", b"two", b"three")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    lines = [line for file in tmp_path.iterdir() for line in file.read_bytes().splitlines()]
    expected = [b"%s-%d" % (name, number) for name in (b"one", b"two", b"three") for number in range(400)]
    assert sorted(lines) == sorted(expected)
    assert len(list(tmp_path.iterdir())) > 3
    assert all(file.stat().st_size <= 2000 for file in tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_what_is_no_file_is_no_log(tmp_path, kind):
    path = tmp_path / "log"
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    with pytest.raises(OSError, match="log"):
        log_at(path)


def test_the_first_log_that_can_be_written_is_taken(tmp_path):
    blocked = tmp_path / "file" / "log"
    (tmp_path / "file").touch()
    assert open_first([blocked, tmp_path / "log"], log_at).path == tmp_path / "log"
    with pytest.raises(OSError, match=str(blocked.parent)):
        open_first([blocked, blocked], log_at)
