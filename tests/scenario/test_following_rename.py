"""Rotation by renaming: the writer goes on in a new file, at first a while in the old one."""

from __future__ import annotations

import pytest

from support.logs import Followed, write


@pytest.fixture
def log(tmp_path):
    return tmp_path / "app.jsonl"


@pytest.fixture(
    params=["app.jsonl", "app.jsonl*"], ids=["the name alone", "a glob that names the old one too"]
)
def followed(request, tmp_path):
    followed = Followed(tmp_path / request.param)
    yield followed
    followed.follower.close()


def test_the_old_file_is_read_to_its_end_and_the_new_one_from_its_first_byte(log, followed):
    write(log, "one\n")
    assert followed.poll() == ["one"]
    write(log, "two\n")
    log.rename(log.with_suffix(".jsonl.1"))
    write(log, "three\n")
    assert followed.poll() == ["two", "three"]
    assert followed.follower.counts.rotations == 1
    assert followed.follower.counts.truncations == 0


def test_a_writer_that_has_not_noticed_yet_is_still_heard(log, followed):
    write(log, "one\n")
    followed.poll()
    with log.open("a") as writer:
        log.rename(log.with_suffix(".jsonl.1"))
        write(log, "new\n")
        assert followed.poll() == ["new"]
        followed.clock.advance(25)
        writer.write("late\nlater ")
        writer.flush()
        assert followed.poll() == ["late"]
        followed.clock.advance(25)
        writer.write("still\n")
        writer.flush()
        assert followed.poll() == ["later still"]
        assert followed.poll() == []
        writer.write("the last\n")
    assert followed.poll() == ["the last"]


def test_the_new_file_is_read_at_once_without_a_search(log, followed):
    write(log, "one\n")
    followed.poll()
    log.rename(log.parent / "elsewhere")
    write(log, "two\n")
    assert [line.data for line in followed.follower.poll()] == [b"two"]


def test_a_file_that_is_gone_is_read_to_its_end_however_long_that_takes(log, followed):
    lines = [f"line {number}" for number in range(1000)]
    write(log, "one\n")
    followed.poll()
    write(log, "".join(f"{line}\n" for line in lines))
    log.rename(log.parent / "elsewhere")
    seen = []
    for _ in range(20):
        followed.clock.advance(40)
        seen += [line.data.decode() for line in followed.follower.poll(max_bytes=1000)]
    assert seen == lines


def test_ten_rotations_between_two_polls_lose_what_is_out_of_the_glob_at_most(tmp_path, log):
    followed = Followed(tmp_path / "app.jsonl*")
    write(log, "0\n")
    followed.poll()
    for turn in range(1, 11):
        log.rename(tmp_path / f"app.jsonl.{turn}")
        write(log, f"{turn}\n")
    assert sorted(followed.poll(), key=int) == [str(turn) for turn in range(11) if turn]
    followed.follower.close()


def test_names_that_move_up_are_the_same_files(tmp_path, log):
    followed = Followed(tmp_path / "app.jsonl*")
    for turn in range(5):
        for number in range(turn - 1, 0, -1):
            (tmp_path / f"app.jsonl.{number}").rename(tmp_path / f"app.jsonl.{number + 1}")
        if log.exists():
            log.rename(tmp_path / "app.jsonl.1")
        write(log, f"turn {turn}\n")
        assert followed.poll() == [f"turn {turn}"]
    assert followed.poll() == []
    assert followed.follower.counts.rotations == 4
    followed.follower.close()


def test_the_old_file_is_closed_once_nobody_writes_to_it(log, followed):
    write(log, "one\n")
    followed.poll()
    log.rename(log.parent / "elsewhere")
    write(log, "two\n")
    followed.poll()
    assert followed.files.opened == 2
    followed.clock.advance(30)
    followed.poll()
    assert followed.files.opened == 1


def test_a_file_that_has_a_new_name_in_the_glob_stays_open(tmp_path, log):
    followed = Followed(tmp_path / "app.jsonl*")
    write(log, "one\n")
    followed.poll()
    log.rename(tmp_path / "app.jsonl.1")
    for _ in range(100):
        followed.poll()
    assert followed.files.opens == 1
    write(tmp_path / "app.jsonl.1", "two\n")
    assert [line.path for line in followed.lines()] == [str(tmp_path / "app.jsonl.1")]
    followed.follower.close()


def test_the_last_line_of_a_file_that_is_gone_needs_no_newline(log, followed):
    write(log, "one\ntwo")
    assert followed.poll() == ["one"]
    log.rename(log.parent / "elsewhere")
    assert followed.poll() == []
    followed.clock.advance(31)
    assert followed.poll() == ["two"]
    assert followed.files.opened == 0
