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


STAMP = "2026-03-02T12:30:00Z stdout"


@pytest.mark.parametrize("looked_between", [False, True])
def test_a_line_whose_pieces_are_in_two_files_is_whole(log, followed, looked_between):
    write(log, f"{STAMP} F one\n{STAMP} P aa\n")
    assert followed.poll() == ["one"]
    write(log, f"{STAMP} P bb\n")
    log.rename(log.with_suffix(".jsonl.1"))
    if looked_between:
        assert followed.poll() == []
    write(log, f"{STAMP} F cc\n{STAMP} F two\n")
    assert followed.poll() == ["aabbcc", "two"]
    followed.clock.advance(31)
    assert followed.poll() == []


def test_a_new_file_waits_for_the_pieces_that_the_old_one_still_holds(log, followed):
    write(log, f"{STAMP} F one\n")
    followed.poll()
    write(log, "".join(f"{STAMP} F line {number}\n" for number in range(100)) + f"{STAMP} P aa\n")
    log.rename(log.with_suffix(".jsonl.1"))
    write(log, f"{STAMP} F bb\n")
    followed.clock.advance(1)
    seen = [line.data.decode() for line in followed.follower.poll(max_bytes=1000)]
    assert followed.follower.behind
    while followed.follower.behind:
        seen += [line.data.decode() for line in followed.follower.poll(max_bytes=1000)]
    assert seen == [*(f"line {number}" for number in range(100)), "aabb"]


def test_a_new_file_does_not_wait_for_an_old_one_that_cannot_be_read(log, followed):
    write(log, "one\n")
    followed.poll()
    log.rename(log.with_suffix(".jsonl.1"))
    followed.files.broken.add(str(log))
    followed.poll()
    followed.files.broken.clear()
    write(log, "two\n")
    followed.clock.advance(40)
    assert followed.poll() == ["two"]


def test_pieces_without_an_end_are_handed_out_when_their_file_is_let_go(log, followed):
    write(log, f'{STAMP} F one\n{STAMP} P {{"ts":1,\n')
    assert followed.poll() == ["one"]
    log.rename(log.parent / "elsewhere")
    assert followed.poll() == []
    followed.clock.advance(31)
    assert followed.poll() == ['{"ts":1,']


def test_a_line_in_two_files_is_not_looked_for_in_the_new_one_after_a_restart(log, followed):
    write(log, f"{STAMP} F one\n" * 9 + f"{STAMP} P aa\n")
    followed.poll()
    log.rename(log.with_suffix(".jsonl.1"))
    write(log, f"{STAMP} P bb\n")
    assert followed.poll() == []
    assert all(position.pending in ({}, {"stdout": 0}) for position in followed.follower.positions().files)


def test_a_copy_of_a_new_file_that_waits_is_not_read_beside_it(tmp_path, log):
    followed = Followed(tmp_path / "app.jsonl*")
    write(log, "one\n")
    followed.poll()
    write(log, f"{'x' * 999}\n" * 300)
    log.rename(log.with_suffix(".jsonl.1"))
    write(log, "two\n")
    log.with_suffix(".jsonl.2").write_bytes(log.read_bytes())
    seen = followed.poll()
    followed.clock.advance(40)
    assert (seen + followed.poll()).count("two") == 1
    followed.follower.close()
