"""A writer that is caught in the middle of a line."""

from __future__ import annotations

import tracemalloc

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


def test_a_half_line_that_another_line_replaced_is_noticed(log, followed):
    write(log, "a half line")
    followed.poll()
    write(log, " and the rest\n")
    log.with_name("app.jsonl.1").write_bytes(log.read_bytes())
    write(log, "another line, longer than the first\n", mode="w")
    seen = followed.poll()
    assert sorted(seen) == ["a half line and the rest", "another line, longer than the first"]
    assert followed.follower.counts.truncations == 1


def test_a_half_line_is_read_on_by_the_byte(log, followed):
    write(log, "a half line of more than ten bytes")
    followed.poll()
    write(log, " and its end\n")
    seen = []
    for _ in range(20):
        followed.clock.advance(1)
        seen += [line.data.decode() for line in followed.follower.poll(max_bytes=10)]
    assert seen == ["a half line of more than ten bytes and its end"]
    assert followed.follower.counts.truncations == 0


def test_a_line_of_a_hundred_megabytes_takes_no_more_memory_than_the_cap(log):
    followed = Followed(log, max_line=1 << 20)
    with log.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\nnext\n")
    tracemalloc.start()
    lines = followed.lines()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(len(line.data), line.whole) for line in lines] == [(1 << 20, False), (4, True)]
    assert peak < 8 << 20
    followed.follower.close()
