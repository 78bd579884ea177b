"""Rotations that are compressed: what was not read of the plain file is read from the compressed one."""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import random
import shutil
import zlib

import pytest

from support.logs import Followed, write
from vllm_observe.records import gunzip
from vllm_observe.records.source import Source, Start


def compress(path, to=None):
    """Do what gzip does: a new file with the old one's times, which is then deleted."""
    stat = path.stat()
    to = to or path.with_name(path.name + ".gz")
    to.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(to, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    return to


def polls(followed, count=4):
    """A compressed file is read once it was left alone for a while."""
    return [line for _ in range(count) for line in followed.poll()]


@pytest.fixture(params=["app.jsonl", "app.jsonl*"], ids=["the name alone", "a glob that names all"])
def followed(request, tmp_path):
    followed = Followed(tmp_path / request.param)
    yield followed
    followed.follower.close()


def numbered(log, number):
    return log.with_name(f"{log.name}.{number}")


@pytest.mark.parametrize("down", [False, True], ids=["while it ran", "while it was down"])
def test_what_was_not_read_before_it_was_compressed_is_read_from_the_compressed_file(log, followed, down):
    write(log, "one\n")
    assert polls(followed) == ["one"]
    write(log, "two\n")
    positions = followed.follower.positions()
    if down:
        followed.follower.close()
    log.rename(numbered(log, 1))
    compress(numbered(log, 1))
    write(log, "three\n")
    if down:
        followed.follower = followed._new()
        followed.follower.restore(positions)
    assert sorted(polls(followed)) == ["three", "two"]
    followed.clock.advance(100)
    assert polls(followed) == []
    followed.restart()
    assert polls(followed) == []


def test_several_rotations_while_it_was_down_are_read_in_their_order(log, followed):
    write(log, "1\n")
    polls(followed)
    write(log, "2\n")
    followed.restart()  # before the first poll it is as if it were down
    for turn in (3, 4, 5):
        for number in (2, 1):
            old = numbered(log, f"{number}.gz")
            if old.exists():
                old.rename(numbered(log, f"{number + 1}.gz"))
        log.rename(numbered(log, 1))
        compress(numbered(log, 1))
        write(log, f"{turn}\n")
        os.utime(log, ns=(turn, log.stat().st_mtime_ns + turn))
    seen = polls(followed)
    assert sorted(seen) == ["2", "3", "4", "5"]
    followed.restart()
    assert polls(followed) == []


def test_delaycompress_leaves_the_last_rotation_plain_for_a_while(log, followed):
    written = []
    seen = []
    for turn in range(6):
        if turn:
            if numbered(log, 1).exists():
                compress(numbered(log, 1), numbered(log, f"{turn}.gz"))
            log.rename(numbered(log, 1))
            write(numbered(log, 1), f"{turn} late\n")  # its writer has not noticed yet
            written.append(f"{turn} late")
        write(log, f"{turn}\n")
        written.append(f"{turn}")
        seen += polls(followed)
        if turn == 3:
            followed.restart()
    assert sorted(seen) == sorted(written)


def test_a_compressed_file_that_was_read_is_neither_open_nor_looked_into_again(log, followed):
    write(log, "one\n")
    polls(followed)
    log.rename(numbered(log, 1))
    compress(numbered(log, 1))
    followed.clock.advance(40)
    polls(followed)
    opens = followed.files.opens
    followed.clock.advance(40)
    assert polls(followed, 10) == []
    assert followed.files.opens == opens
    assert followed.files.opened == 0


def test_a_compressed_log_that_nobody_read_is_read_whole(log):
    write(log, "one\ntwo\n")
    compress(log)
    followed = Followed(log.parent / "*.gz")
    assert polls(followed) == ["one", "two"]
    followed.restart()
    assert polls(followed) == []
    followed.follower.close()


def test_a_compressed_log_may_be_taken_up_at_its_end(log):
    write(log, "one\ntwo\n")
    compress(log)
    followed = Followed(Source(f"{log}*", start=Start.END))
    assert polls(followed) == []
    followed.restart()
    assert polls(followed) == []
    write(log, "three\n")
    assert polls(followed) == ["three"]
    followed.follower.close()


def test_a_file_that_is_compressed_slowly_is_read_when_all_of_it_is_there(log):
    followed = Followed(log.parent / "*.gz")
    lines = [f"{random.Random(number).random()}" for number in range(2000)]
    content = gzip.compress("".join(f"{line}\n" for line in lines).encode())
    archive = log.with_suffix(".gz")
    archive.touch()
    for end in (1, 2, 5, 1000, 10_000, len(content)):
        archive.write_bytes(content[:end])
        assert followed.poll() == []
    assert polls(followed) == lines
    assert followed.follower.open_errors == 0
    followed.follower.close()


def test_a_compressed_copy_of_a_log_that_goes_on_is_not_read(log, followed):
    write(log, "one\ntwo\n")
    polls(followed)
    shutil.copyfile(log, numbered(log, 1))
    write(log, "", mode="w")
    compress(numbered(log, 1))
    write(log, "three\n")
    assert polls(followed) == ["three"]
    followed.restart()
    assert polls(followed) == []


def test_what_was_cut_off_before_it_was_read_is_read_from_the_compressed_copy(log, followed):
    write(log, "one\n")
    polls(followed)
    write(log, "two\n")
    shutil.copyfile(log, numbered(log, 1))
    write(log, "", mode="w")
    compress(numbered(log, 1))
    write(log, "three\n")
    assert sorted(polls(followed)) == ["three", "two"]


@pytest.mark.parametrize("copied", [True, False], ids=["copytruncate", "rename"])
def test_a_kill_while_it_is_compressed_loses_nothing(log, followed, copied):
    """Its time is that of the copy's writing only when it is whole; by the restart it has another name, too."""
    write(log, "one\n")
    polls(followed)
    write(log, "two\n")
    plain = numbered(log, 1)
    if copied:
        shutil.copyfile(log, plain)
        write(log, "", mode="w")
    else:
        log.rename(plain)
    was = plain.stat()
    content = gzip.compress(plain.read_bytes())
    plain.unlink()
    archive = numbered(log, 1).with_name(f"{plain.name}.gz")
    archive.write_bytes(content[:-5])
    os.utime(archive, ns=(was.st_atime_ns, was.st_mtime_ns + 1_000_000_000))
    write(log, "three\n")
    os.utime(log, ns=(was.st_atime_ns, was.st_mtime_ns + 500_000_000))
    seen = followed.poll()
    positions = followed.follower.positions()
    followed.follower.close()
    archive.write_bytes(content)
    os.utime(archive, ns=(was.st_atime_ns, was.st_mtime_ns))
    archive.rename(numbered(log, 4).with_name(f"{log.name}.4.gz"))
    followed.follower = followed._new()
    followed.follower.restore(positions)
    assert sorted(seen + polls(followed)) == ["three", "two"]


@pytest.mark.parametrize(("cut", "least"), [(10, 0), (3000, 250), (-8, 1000), (-1, 1000)])
def test_a_compressed_file_that_is_cut_short_is_read_so_far_as_it_goes_and_counted_once(
    log, cut, least, caplog
):
    lines = [f"{random.Random(number).random()}" for number in range(1000)]
    content = gzip.compress("".join(f"{line}\n" for line in lines).encode())
    log.with_suffix(".gz").write_bytes(content[:cut])
    followed = Followed(log.parent / "*")
    with caplog.at_level(logging.INFO):
        seen = polls(followed, 30)
    assert seen[:-1] == lines[: max(0, len(seen) - 1)]  # the last one may be cut
    assert len(seen) >= least
    assert followed.follower.open_errors == 1
    assert [entry.getMessage() for entry in caplog.records] == ["a compressed log is cut short"]
    log.with_suffix(".gz").write_bytes(content)
    followed.restart()
    rest = (seen + polls(followed))[len(seen) :]
    assert rest == lines[len(seen) :]
    followed.follower.close()


def test_a_damaged_compressed_file_is_read_up_to_the_damage_and_its_neighbours_wholly(log, followed):
    lines = [f"{random.Random(number).random()}" for number in range(5000)]
    content = bytearray(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    content[len(content) // 2 : len(content) // 2 + 100] = b"\xff" * 100
    expected = b""
    with contextlib.suppress(zlib.error):
        inflater = zlib.decompressobj(31)
        for byte in content:
            expected += inflater.decompress(bytes([byte]))
    followed = Followed(log.parent / "*")
    log.with_suffix(".gz").write_bytes(content)
    write(log, "heard\n")
    seen = [line.data for _ in range(4) for line in followed.lines()]
    assert sorted(seen) == sorted([b"heard", *(line for line in expected.split(b"\n") if line)])
    assert len(seen) > 2000
    assert followed.follower.open_errors == 1
    followed.follower.close()


def test_a_file_that_inflates_to_no_end_is_read_up_to_a_bound(log, monkeypatch):
    monkeypatch.setattr(gunzip, "_MOST_TEXT_BYTES", 30_000_000)
    followed = Followed(log.parent / "*", max_line=1000)
    log.with_suffix(".gz").write_bytes(gzip.compress(b"x" * 60_000_000))
    write(log, "heard\n")
    read = [line for _ in range(5) for line in followed.lines()]
    assert sorted((len(line.data), line.whole) for line in read) == [(5, True), (1000, False)]
    assert followed.follower.open_errors == 1
    assert followed.follower.counts.bytes <= 30_000_010
    followed.follower.close()


def test_a_long_compressed_file_does_not_hold_up_the_others(log, monkeypatch):
    monkeypatch.setattr(gunzip, "_STEP_BYTES", 20_000)
    monkeypatch.setattr(gunzip, "_BETWEEN_BYTES", 10_000)
    lines = [f"line {number:06}" for number in range(30_000)]
    write(log, "".join(f"{line}\n" for line in lines))
    followed = Followed(log.parent / "app*")
    assert followed.poll() == lines
    followed.restart()
    write(log, "more\n")
    compress(log)
    write(log.with_name("app"), "")
    followed.clock.advance(1)
    followed.follower.poll()
    followed.clock.advance(3)
    seen = []
    for number in range(5):
        write(log.with_name("app"), f"heard {number}\n")
        seen += [line.data.decode() for line in followed.follower.poll()]
    assert seen == [f"heard {number}" for number in range(5)]
    assert followed.follower.behind
    assert polls(followed) == ["more"]
    followed.follower.close()


def test_the_last_line_of_a_compressed_file_needs_no_newline(log):
    write(log, "one\ntwo")
    compress(log)
    followed = Followed(log.parent / "*.gz")
    assert polls(followed) == ["one", "two"]
    followed.restart()
    assert polls(followed) == []
    followed.follower.close()
