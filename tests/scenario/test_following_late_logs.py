"""Logs that are made only after the first search, and turned before anybody saw them."""

from __future__ import annotations

import gzip
import os
import shutil

import pytest

from support.logs import Followed, write
from vllm_observe.records.position import Positions
from vllm_observe.records.source import Source, Start


def rename(log, turn):
    log.rename(log.with_name(f"{log.name}.{turn}"))


def by_date(log, turn):
    log.rename(log.with_name(f"{log.stem}-2026030{turn}{log.suffix}"))


def compress(log, turn):
    stat = log.stat()
    archive = log.with_name(f"{log.name}.{turn}.gz")
    archive.write_bytes(gzip.compress(log.read_bytes()))
    os.utime(archive, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    log.unlink()


def copy_and_truncate(log, turn):
    shutil.copyfile(log, log.with_name(f"{log.name}.{turn}"))
    os.truncate(log, 0)


TURNS = [rename, by_date, compress, copy_and_truncate]


def polls(followed):
    """A compressed file is read once it was left alone for a while."""
    return sorted(line for _ in range(4) for line in followed.poll())


@pytest.fixture(params=["app/app.jsonl", "app/*.jsonl", "*/app.jsonl"])
def followed(request, tmp_path):
    """A follower that has searched when nothing was there, not even the folder that is there now."""
    followed = Followed(tmp_path / request.param)
    assert followed.poll() == []
    (tmp_path / "app").mkdir()
    yield followed
    followed.follower.close()


@pytest.fixture
def late(tmp_path):
    return tmp_path / "app" / "app.jsonl"


@pytest.mark.parametrize("turn", TURNS)
def test_it_is_read_though_it_was_turned_before_the_next_search(followed, late, turn):
    for number in (1, 2):
        write(late, f"{number}\n")
        turn(late, number)
    write(late, "3\n")
    assert polls(followed) == ["1", "2", "3"]
    followed.restart()
    assert polls(followed) == []


@pytest.mark.parametrize("turn", TURNS)
def test_it_is_read_after_a_kill_before_which_no_progress_was_kept(followed, late, turn):
    kept = followed.follower.positions()
    for number in (1, 2):
        write(late, f"{number}\n")
        followed.poll()
        turn(late, number)
    write(late, "3\n")
    followed.poll()
    followed.files.later_ns = 10**10
    followed.killed(kept)
    assert polls(followed) == ["1", "2", "3"]


@pytest.mark.parametrize("turn", TURNS)
def test_it_is_read_though_its_name_was_gone_for_a_whole_run(followed, late, turn):
    write(late, "1\n")
    turn(late, 1)
    late.unlink(missing_ok=True)
    followed.files.later_ns = 10**10
    followed.restart()
    seen = polls(followed)  # where the glob names its rotation too
    followed.restart()
    write(late, "2\n")
    assert seen + polls(followed) == ["1", "2"]


def test_what_was_seen_and_not_read_is_found_though_its_name_was_gone_for_a_whole_run(log):
    write(log, "1\n")
    followed = Followed(log)
    followed.follower.poll(max_bytes=0)
    rename(log, 1)
    followed.restart()
    followed.poll()
    followed.restart()
    write(log, "2\n")
    assert polls(followed) == ["1", "2"]
    followed.follower.close()


def test_archives_from_before_the_first_search_are_not_read(tmp_path):
    folders = [tmp_path / "there", tmp_path / "mounted later"]
    followed = Followed(*(folder / "app.jsonl" for folder in folders))
    for folder in folders[:1]:
        make_archives(folder)
    assert followed.poll() == []
    kept = followed.follower.positions()
    make_archives(folders[1])
    for folder in folders:
        write(folder / "app.jsonl", f"{folder.name}\n")
    new = ["mounted later", "there"]
    assert polls(followed) == new
    followed.killed(kept)
    assert polls(followed) == new
    followed.follower.close()


def make_archives(folder):
    folder.mkdir()
    for name in ("app.jsonl.1", "app-20260301.jsonl"):
        write(folder / name, "old\n")
        os.utime(folder / name, (1_000_000, 1_000_000))
    compress(folder / "app.jsonl.1", 2)


def test_a_source_that_is_new_does_not_read_archives(tmp_path):
    """That the follower has searched before says nothing of what it did not search for."""
    followed = Followed(tmp_path / "known.jsonl")
    followed.poll()
    write(tmp_path / "app.jsonl.1", "old\n")
    write(tmp_path / "app.jsonl", "1\n")
    followed.sources.append(Source(str(tmp_path / "app.jsonl")))
    followed.restart()
    assert polls(followed) == ["1"]
    followed.follower.close()


def test_nothing_of_a_late_log_is_passed_over_where_reading_begins_at_the_end(tmp_path):
    log = tmp_path / "app.jsonl"
    followed = Followed(Source(str(log), start=Start.END))
    followed.poll()
    kept = followed.follower.positions()
    write(log, "1\n")
    rename(log, 1)
    write(log, "2\n")
    followed.killed(kept)
    assert polls(followed) == ["1", "2"]
    followed.follower.close()


def test_progress_that_says_no_times_goes_on_as_it_did(tmp_path):
    """So wrote it a follower of before: what is new to the next one is what comes from then on."""
    log = tmp_path / "app.jsonl"
    write(log.with_name("app.jsonl.1"), "old\n")
    os.utime(log.with_name("app.jsonl.1"), (1_000_000, 1_000_000))
    followed = Followed(log)
    followed.killed(Positions(sources=(str(log),), files=()))
    followed.poll()
    kept = followed.follower.positions()
    write(log, "1\n")
    rename(log, 2)
    write(log, "2\n")
    followed.killed(kept)
    assert polls(followed) == ["1", "2"]
    followed.follower.close()


@pytest.mark.parametrize("turn", TURNS)
def test_a_log_that_had_to_wait_for_its_turn_is_read_under_the_name_it_has_by_then(tmp_path, turn):
    logs = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for age, log in enumerate(logs):
        write(log, f"{log.stem}1\n")
        os.utime(log, (1_000_000 - age, 1_000_000 - age))
    followed = Followed(tmp_path / "*.jsonl", max_open=1)
    assert followed.poll() == ["a1"]
    kept = followed.follower.positions()
    for log in logs:
        turn(log, 1)
        write(log, f"{log.stem}2\n")
    followed.killed(kept)
    found = sorted(line for _ in range(60) for line in followed.poll())
    assert found == ["a2", "b1", "b2", "c1", "c2"]
    followed.follower.close()


def test_a_log_that_was_turned_between_look_and_open_is_read(tmp_path):
    log = tmp_path / "app.jsonl"
    write(log, "1\n")
    followed = Followed(log)
    opens = followed.files.open

    def turned(path):
        followed.files.open = opens
        rename(log, 1)
        write(log, "2\n")
        return opens(path)

    followed.files.open = turned
    assert polls(followed) == ["1", "2"]
    followed.follower.close()


@pytest.mark.parametrize("turn", TURNS)
def test_a_log_that_was_closed_for_others_is_read_on_under_the_name_it_has_by_then(tmp_path, turn):
    logs = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for log in logs:
        write(log, f"{log.stem}1\n")
    followed = Followed(tmp_path / "*.jsonl", max_open=1)
    assert sorted(line for _ in range(20) for line in followed.poll()) == ["a1", "b1", "c1"]
    kept = followed.follower.positions()
    for log in logs:
        write(log, f"{log.stem}2\n")
        turn(log, 1)
        write(log, f"{log.stem}3\n")
    followed.killed(kept)
    found = sorted(line for _ in range(60) for line in followed.poll())
    assert found == ["a2", "a3", "b2", "b3", "c2", "c3"]
    followed.follower.close()


def test_a_log_that_was_closed_for_others_costs_no_listing_when_it_grows(tmp_path):
    logs = [tmp_path / f"{name}.jsonl" for name in "ab"]
    for log in logs:
        write(log, f"{log.stem}1\n")
    followed = Followed(tmp_path / "*.jsonl", max_open=1)
    assert sorted(line for _ in range(20) for line in followed.poll()) == ["a1", "b1"]
    opens, listings = followed.files.opens, followed.files.listings
    for log in (*logs, *logs):
        write(log, "more\n")
        followed.clock.advance(10)
        assert followed.poll() == ["more"]
    assert followed.files.opens >= opens + 3  # all but the one that may have been open at first
    assert followed.files.listings == listings
    followed.follower.close()
