"""A source names the log alone: what rotation calls the older files is found beside it."""

from __future__ import annotations

import os
import subprocess

import pytest

from support.logs import Followed, write


@pytest.fixture
def followed(log):
    followed = Followed(log)
    yield followed
    followed.follower.close()


def rotate(log, to):
    log.rename(log.parent / to)


def test_rotations_between_two_polls_are_read_in_their_order(log, followed):
    write(log, "0\n")
    followed.poll()
    for turn in range(1, 6):
        for number in range(turn, 0, -1):
            if log.with_name(f"app.jsonl.{number}").exists():
                rotate(log.with_name(f"app.jsonl.{number}"), f"app.jsonl.{number + 1}")
        rotate(log, "app.jsonl.1")
        write(log, f"{turn}\n")
        os.utime(log, ns=(0, log.stat().st_mtime_ns + turn))
    assert followed.poll() == ["1", "2", "3", "4", "5"]
    followed.clock.advance(100)
    followed.poll()
    assert followed.poll() == []
    assert followed.files.opened == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("app.jsonl.2", "app.jsonl.1"),
        ("app.jsonl-20260302", "app.jsonl-20260303"),
        ("app.jsonl.2026-03-02_10", "app.jsonl.2026-03-02_11"),
        ("app.jsonl.20260302-101500", "app.jsonl.20260302-111500"),
        ("app-20260302.jsonl", "app-20260303.jsonl"),
        ("app-2026-11-30T20-28-52.000.jsonl", "app-2026-11-30T20-28-53.000.jsonl"),
        ("app.2.jsonl", "app.1.jsonl"),
        ("app.jsonl.old.2", "app.jsonl.old"),
        ("old/app.jsonl.2", "old/app.jsonl.1"),
        ("2026-11/app-11-30-2026-1.jsonl", "2026-11/app-11-30-2026-2.jsonl"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_rotations_are_known_by_their_usual_names(log, followed, first, second, packed):
    (log.parent / first).parent.mkdir(exist_ok=True)
    write(log, "one\n")
    followed.poll()
    write(log, "two\n")
    followed.restart()
    rotate(log, first)
    write(log, "three\n")
    rotate(log, second)
    write(log, "four\n")
    if packed:
        subprocess.run(["gzip", log.parent / first, log.parent / second], check=True)
    assert sorted(line for _ in range(4) for line in followed.poll()) == ["four", "three", "two"]
    followed.restart()
    assert followed.poll() == []


@pytest.mark.parametrize(
    "name",
    [
        "app-8001.jsonl",
        "app.8001.jsonl",
        "app2.jsonl",
        "app-errors.jsonl",
        "app-errors.jsonl.1",
        "app.jsonl-other",
        "app.jsonl.bak",
        "app.jsonl.bak.swp",
        "another.jsonl.1",
        "1",
        "errors/app.jsonl.1",
        "old",
    ],
)
def test_other_files_beside_a_log_are_none_of_its_rotations(log, followed, name):
    write(log, "one\n")
    followed.poll()
    (log.parent / name).parent.mkdir(exist_ok=True)
    write(log.parent / name, "nobody asked for this\n")
    rotate(log, "app.jsonl.1")
    write(log, "two\n")
    assert followed.poll() == ["two"]


def test_rotations_from_before_the_first_start_are_not_read(log, followed):
    write(log.with_name("app.jsonl.1"), "old\n")
    os.utime(log.with_name("app.jsonl.1"), (1, 1))
    write(log, "one\n")
    assert followed.poll() == ["one"]
    log.unlink()
    write(log, "two\n")
    assert followed.poll() == ["two"]
    followed.restart()
    assert followed.poll() == []


def test_a_log_with_such_a_name_that_a_source_names_is_that_sources(log):
    second = log.with_name("app.2.jsonl")
    followed = Followed(log, second)
    write(log, "one\n")
    followed.poll()
    rotate(log, "app.1.jsonl")
    write(second, "theirs\n")
    write(log, "two\n")
    followed.follower.poll()
    followed.clock.advance(1)
    lines = {line.data: line.source.path for line in followed.lines()}
    assert lines[b"theirs"] == str(second)
    followed.follower.close()


def test_a_folder_for_rotations_that_may_not_be_listed_is_nobodys_error(log, followed):
    log.with_name("old").mkdir()
    followed.files.unlisted.add(str(log.with_name("old")))
    write(log, "one\n")
    followed.poll()
    rotate(log, "app.jsonl.1")
    write(log, "two\n")
    assert followed.poll() == ["two"]
    assert followed.follower.open_errors == 0


def test_a_copy_holds_what_was_cut_off(log, followed):
    write(log, "one\n")
    followed.poll()
    write(log, "two\n")
    log.with_name("app.jsonl.1").write_bytes(log.read_bytes())
    write(log, "three\n", mode="w")
    assert sorted(followed.poll()) == ["three", "two"]


def test_the_rotations_lie_beside_what_a_link_leads_to(tmp_path):
    pod = tmp_path / "pods" / "0.log"
    pod.parent.mkdir()
    link = tmp_path / "containers.log"
    link.symlink_to(pod)
    followed = Followed(tmp_path / "*.log")
    write(pod, "one\n")
    assert followed.poll() == ["one"]
    write(pod, "two\n")
    followed.restart()
    rotate(pod, "0.log.20260302-101500")
    write(pod, "three\n")
    assert sorted(followed.poll()) == ["three", "two"]
    followed.follower.close()


def test_pieces_of_a_line_go_on_through_rotations_that_nobody_saw(log, followed):
    stamp = "2026-03-02T12:30:00Z stdout"
    write(log, f"{stamp} F one\n{stamp} P aa\n")
    assert followed.poll() == ["one"]
    rotate(log, "app.jsonl.2")
    write(log, f"{stamp} P bb\n")
    rotate(log, "app.jsonl.1")
    write(log, f"{stamp} F cc\n")
    os.utime(log, ns=(0, log.stat().st_mtime_ns + 10**6))
    assert followed.poll() == ["aabbcc"]


def test_a_folder_that_may_not_be_listed_is_counted_and_the_log_is_read(log, followed):
    write(log, "one\n")
    followed.poll()
    followed.files.unlisted.add(str(log.parent))
    rotate(log, "app.jsonl.1")
    write(log, "two\n")
    assert followed.poll() == ["two"]
    assert followed.follower.open_errors == 1
