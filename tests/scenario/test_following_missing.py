"""What was not read of a log, and is not found again or cannot be read, is counted and told once."""

from __future__ import annotations

import gzip
import logging
import lzma
import os

import pytest

from support.logs import Followed, write
from vllm_observe.records.source import Source

GONE = "a request log that was read in part is gone: what came after that is not read"
NOTHING = {"gone": 0, "compressed": 0}
#: Names that no rule could know.
STRANGE = ("saved-{}", "elsewhere/{}")


@pytest.fixture
def followed(log):
    followed = Followed(log)
    yield followed
    followed.follower.close()


def turn(log, to):
    to = log.parent / to
    to.parent.mkdir(exist_ok=True)
    log.rename(to)
    return to


def pack(path):
    """Do what xz does: a new file with the old one's times, which is then deleted."""
    stat = path.stat()
    to = path.with_name(path.name + ".xz")
    to.write_bytes(lzma.compress(path.read_bytes()))
    os.utime(to, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    path.unlink()
    return to


def polls(followed):
    """Poll until what is missing has been told."""
    seen = sorted(line for _ in range(8) for line in followed.poll())
    followed.clock.advance(60)
    return sorted(seen + followed.poll() + followed.poll())


def warnings(caplog):
    return [entry for entry in caplog.records if entry.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", STRANGE)
def test_a_log_that_was_read_in_part_and_is_gone_is_told_once(log, followed, name, caplog):
    write(log, "1\n")
    followed.poll()
    followed.restart()
    for number in (2, 3):
        write(log, f"{number}\n")
        turn(log, name.format(number))
    write(log, "4\n")
    assert polls(followed) == ["4"]
    assert followed.follower.unread == {"gone": 1, "compressed": 0}
    (warning,) = warnings(caplog)
    assert (
        warning.getMessage()
        == "a request log that was read in part is gone: what came after that is not read"
    )
    assert warning.fields["path"] == str(log)
    assert warning.fields["read_bytes"] == 2
    assert f"{log.parent}/app*" in warning.fields["mend"]
    followed.restart()
    assert polls(followed) == []
    assert followed.follower.unread == NOTHING
    assert len(warnings(caplog)) == 1


def test_with_the_glob_that_the_warning_asks_for_all_of_it_is_read(log, followed):
    write(log, "1\n")
    followed.poll()
    followed.restart()
    for number in (2, 3):
        write(log, f"{number}\n")
        turn(log, f"app_was_{number}")
    write(log, "4\n")
    assert polls(followed) == ["4"]
    kept = followed.follower.positions()
    wide = Followed(log.with_name("app*"))
    wide.killed(kept)
    assert polls(wide) == ["2", "3"]
    assert wide.follower.unread == NOTHING
    wide.follower.close()


def test_with_a_glob_what_could_not_be_read_is_read_once_it_is_unpacked(log, followed):
    write(log, "1\n")
    followed.poll()
    followed.restart()
    packed = []
    for number in range(9, 2, -1):
        write(log, f"{number}\n")
        packed.append(pack(turn(log, f"app.jsonl.{number}")))
    write(log, "2\n")
    assert polls(followed) == ["2"]
    assert followed.follower.unread == {"gone": 0, "compressed": 7}
    for path in packed:
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        path.unlink()
    kept = followed.follower.positions()
    wide = Followed(f"{log}*")
    wide.killed(kept)
    assert polls(wide) == ["3", "4", "5", "6", "7", "8", "9"]
    wide.follower.close()


def test_it_is_told_though_each_run_ends_before_it_is_sure(log, followed, caplog):
    write(log, "1\n")
    followed.poll()
    followed.restart()
    turn(log, "saved")
    for number in (2, 3):
        write(log, f"{number}\n")
        assert followed.poll() == [f"{number}"]
        followed.restart()
        assert not warnings(caplog)
    assert polls(followed) == []
    assert followed.follower.unread == {"gone": 1, "compressed": 0}
    assert len(warnings(caplog)) == 1


@pytest.mark.parametrize("again", ["app.jsonl", "app.jsonl*"])
def test_rotations_that_cannot_be_read_are_counted_and_told_once(log, again, caplog):
    followed = Followed(log.with_name(again))
    write(log, "1\n")
    followed.poll()
    followed.restart()
    packed = []
    for number in (3, 2):
        write(log, f"{number}\n")
        packed.append(str(pack(turn(log, f"app.jsonl.{number}"))))
    write(log, "4\n")
    assert polls(followed) == ["4"]
    assert followed.follower.unread == {"gone": 0, "compressed": 2}
    (warning,) = warnings(caplog)
    assert (
        warning.getMessage() == "rotations of a request log cannot be read: what was not read before is lost"
    )
    assert warning.fields["path"] == str(log)
    assert warning.fields["count"] == 2
    assert warning.fields["rotations"] == sorted(packed)
    assert "gzip" in warning.fields["mend"]
    for number in (5, 6):
        turn(log, f"app.jsonl.{number}")
        write(log, f"{number}\n")
        assert polls(followed) == [f"{number}"]
    followed.restart()
    assert polls(followed) == []
    assert len(warnings(caplog)) == 1
    followed.follower.close()


@pytest.mark.parametrize("down", [False, True], ids=["while it ran", "while it was down"])
@pytest.mark.parametrize("pattern", ["app.jsonl", "app.jsonl*"])
def test_rotations_that_were_read_to_their_ends_may_be_compressed_in_any_way(log, pattern, down, caplog):
    followed = Followed(log.with_name(pattern))
    for number in range(1, 5):
        write(log, f"{number}\n")
        assert polls(followed) == [f"{number}"]
        if down:
            followed.restart()
        pack(turn(log, f"app.jsonl.{9 - number}"))
    write(log, "5\n")
    assert polls(followed) == ["5"]
    assert followed.follower.unread == NOTHING
    assert not warnings(caplog)
    followed.follower.close()


def test_what_an_open_file_still_holds_is_no_loss_though_its_rotation_cannot_be_read(log, followed, caplog):
    write(log, "1\n")
    followed.poll()
    write(log, "2\n")
    pack(turn(log, "app.jsonl.1"))
    write(log, "3\n")
    assert polls(followed) == ["2", "3"]
    assert followed.follower.unread == NOTHING
    assert not warnings(caplog)


def test_archives_from_before_the_first_start_are_no_loss(log, caplog):
    write(log, "old\n")
    os.utime(pack(turn(log, "app.jsonl.1")), (1_000_000, 1_000_000))
    write(log, "1\n")
    followed = Followed(log.with_name("app*"))
    assert polls(followed) == ["1"]
    turn(log, "app.jsonl")
    followed.restart()
    assert polls(followed) == []
    assert followed.follower.unread == NOTHING
    assert not warnings(caplog)
    followed.follower.close()


def by_rename(log):
    turn(log, "app.jsonl.1")


def by_gzip(log):
    packed = log.with_name("app.jsonl.1.gz")
    stat = log.stat()
    packed.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(packed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.unlink()


def by_copy(log):
    log.with_name("app.jsonl.1").write_bytes(log.read_bytes())
    os.truncate(log, 0)


@pytest.mark.parametrize("rotated", [by_rename, by_gzip, by_copy])
@pytest.mark.parametrize("pattern", ["app.jsonl", "app.jsonl*"])
def test_a_log_that_is_found_again_is_not_missing(log, pattern, rotated, caplog):
    followed = Followed(log.with_name(pattern))
    write(log, "1\n")
    followed.poll()
    write(log, "2\n")
    followed.restart()
    rotated(log)
    write(log, "3\n")
    assert polls(followed) == ["2", "3"]
    followed.restart()
    assert polls(followed) == []
    assert followed.follower.unread == NOTHING
    assert not warnings(caplog)
    followed.follower.close()


@pytest.mark.parametrize("lived", [False, True], ids=["found as rotations", "seen to be rotated"])
def test_rotations_that_were_read_may_be_deleted(log, lived, caplog):
    """As the oldest one is each time, which another may take the name of."""
    followed = Followed(log.with_name("app.jsonl*"))
    for number in (3, 2, 1):
        write(log, f"{number}\n")
        if lived:
            polls(followed)
        turn(log, f"app.jsonl.{number}")
    write(log, "0\n")
    polls(followed)
    followed.restart()
    log.with_name("app.jsonl.3").unlink()
    for number in (2, 1):
        turn(log.with_name(f"app.jsonl.{number}"), f"app.jsonl.{number + 1}")
    turn(log, "app.jsonl.1")
    write(log, "new\n")
    assert polls(followed) == ["new"]
    assert followed.follower.unread == NOTHING
    assert not warnings(caplog)
    followed.follower.close()


def test_a_rotation_that_was_not_read_to_its_end_and_is_deleted_is_told(log, followed, caplog):
    write(log, "".join(f"line {number}\n" for number in range(100_000)))
    followed.clock.advance(1)
    assert len(followed.follower.poll(max_bytes=1000)) > 1
    turn(log, "app.jsonl.1")
    write(log, "new\n")
    followed.clock.advance(1)
    followed.follower.poll(max_bytes=1000)
    followed.restart()
    log.with_name("app.jsonl.1").unlink()
    assert polls(followed)[-1:] == ["new"]
    assert followed.follower.unread == {"gone": 1, "compressed": 0}
    assert len(warnings(caplog)) == 1


def test_a_log_that_was_truncated_while_nobody_looked_is_told(log, followed, caplog):
    write(log, "1\n")
    followed.poll()
    followed.restart()
    write(log, "2\n")
    write(log, "three\n", mode="w")
    assert polls(followed) == ["three"]
    assert followed.follower.unread == {"gone": 1, "compressed": 0}
    assert len(warnings(caplog)) == 1


def test_it_is_not_told_before_a_rotation_that_has_to_wait_was_looked_into(log):
    followed = Followed(log)
    write(log, "1\n")
    followed.poll()
    write(log, "2\n")
    followed.restart()
    rotation = turn(log, "app.jsonl.1")
    followed.files.refused.add(str(rotation))
    write(log, "3\n")
    assert polls(followed) == ["3"]
    assert followed.follower.unread == NOTHING
    followed.files.refused.clear()
    followed.clock.advance(60)
    assert polls(followed) == ["2"]
    assert followed.follower.unread == NOTHING
    followed.follower.close()


def test_a_log_that_could_not_be_read_for_a_while_is_found_by_the_name_it_has_by_then(log, followed):
    write(log, "1\n")
    followed.poll()
    write(log, "2\n")
    followed.files.broken.add(str(log))
    assert followed.poll() == []
    followed.files.broken.clear()
    turn(log, "app.jsonl.1")
    write(log, "3\n")
    followed.clock.advance(60)
    assert polls(followed) == ["2", "3"]
    assert followed.follower.unread == NOTHING


def test_a_log_that_could_not_be_read_for_a_while_and_is_gone_by_then_is_told(log, followed, caplog):
    write(log, "1\n")
    followed.poll()
    write(log, "2\n")
    followed.files.broken.add(str(log))
    assert followed.poll() == []
    followed.files.broken.clear()
    turn(log, "saved")
    write(log, "3\n")
    followed.clock.advance(60)
    assert polls(followed) == ["3"]
    assert followed.follower.unread == {"gone": 1, "compressed": 0}
    assert [entry.getMessage() for entry in warnings(caplog)][1:] == [GONE]


def test_settings_that_change_leave_what_is_missing_to_be_told(log, followed):
    write(log, "1\n")
    followed.poll()
    followed.restart()
    turn(log, "saved")
    write(log, "2\n")
    assert followed.poll() == ["2"]
    followed.sources.append(Source(str(log.with_name("other.jsonl"))))
    followed.restart()
    assert polls(followed) == []
    assert followed.follower.unread == {"gone": 1, "compressed": 0}
