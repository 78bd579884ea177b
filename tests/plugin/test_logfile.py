from __future__ import annotations

import multiprocessing
import os
import re

import pytest

from support.waiting import eventually
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


def write_batches(path, name, together):
    log = log_at(path, max_bytes=4000, files=200)
    together.wait()
    for first in range(0, 15_000, 100):
        log.append(b"".join(b"%s-%06d\n" % (name, number) for number in range(first, first + 100)))


def test_processes_that_are_killed_as_they_write_lose_double_and_tear_no_line_of_others(tmp_path):
    path, names = tmp_path / "log", (b"one", b"two", b"six")
    spawning = multiprocessing.get_context("spawn")
    together = spawning.Barrier(len(names))
    processes = [spawning.Process(target=write_batches, args=(path, name, together)) for name in names]
    for process in processes:
        process.start()
    for process in processes[:2]:
        rotated = len(list(tmp_path.iterdir()))
        eventually(lambda seen=rotated: len(list(tmp_path.iterdir())) > seen + 4, within=30, what="rotations")
        process.kill()
    for process in processes:
        process.join()
    oldest_first = sorted(tmp_path.iterdir(), key=lambda file: int(file.suffix[1:] or 0), reverse=True)
    lines = [line for file in oldest_first for line in file.read_bytes().splitlines()]
    whole = {
        name: [int(n) for n in re.findall(rb"(?m)^%s-(\d{6})$" % name, b"\n".join(lines))] for name in names
    }
    assert all(numbers == list(range(len(numbers))) for numbers in whole.values())
    assert len(whole[b"six"]) == 15_000
    assert all(file.stat().st_size <= 4000 for file in oldest_first)
    assert len(lines) - sum(map(len, whole.values())) <= 2  # half a line of each that was killed


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
