"""Rotation by copying and truncating, as logrotate's copytruncate does."""

from __future__ import annotations

import os
import shutil

import pytest

from support.logs import Followed, write


@pytest.fixture
def log(tmp_path):
    return tmp_path / "app.jsonl"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "app.jsonl.1"


@pytest.fixture
def followed(tmp_path):
    followed = Followed(tmp_path / "app.jsonl*")
    yield followed
    followed.follower.close()


def truncate(path):
    write(path, "", mode="w")


def test_the_copy_is_not_read_again(log, copy, followed):
    write(log, "one\ntwo\n")
    assert followed.poll() == ["one", "two"]
    shutil.copyfile(log, copy)
    truncate(log)
    write(log, "three\n")
    assert followed.poll() == ["three"]
    followed.clock.advance(1000)
    assert followed.poll() == []
    assert followed.follower.counts.truncations == 1


def test_a_log_that_grew_beyond_what_was_read_before_the_next_look_is_noticed(log, copy, followed):
    write(log, "one\n")
    followed.poll()
    shutil.copyfile(log, copy)
    truncate(log)
    write(log, "".join(f"line {n}\n" for n in range(100)))
    assert followed.poll() == [f"line {n}" for n in range(100)]
    assert followed.follower.counts.truncations == 1


def test_a_log_of_just_the_size_that_was_read_is_noticed(log, followed):
    write(log, "L3\n")
    followed.poll()
    followed.clock.advance(60)
    followed.poll()
    truncate(log)
    write(log, "L4\n")
    assert followed.poll() == ["L4"]


def test_lines_that_were_cut_off_before_they_were_read_are_read_from_the_copy(log, copy, followed):
    write(log, "one\n")
    followed.poll()
    write(log, "two\nthr")
    shutil.copyfile(log, copy)
    truncate(log)
    write(log, "ee\nfour\n")
    assert sorted(followed.poll()) == ["ee", "four", "two"]  # the line that was cut in two is lost


def test_a_copy_that_is_still_being_written_is_not_read_at_any_time(log, copy, followed):
    lines = [f"line {n} {'x' * 200}" for n in range(50)]
    write(log, "".join(f"{line}\n" for line in lines))
    assert followed.poll() == lines
    content = log.read_bytes()
    copy.touch()
    assert followed.poll() == []
    for end in (10, 500, 4096, 9000, len(content)):
        copy.write_bytes(content[:end])
        assert followed.poll() == []
    truncate(log)
    followed.clock.advance(1000)
    assert followed.poll() == []


def test_a_log_that_grows_while_it_is_copied_is_read_once(log, copy, followed):
    write(log, "one\n")
    followed.poll()
    shutil.copyfile(log, copy)
    write(log, "two\n")
    assert followed.poll() == ["two"]
    truncate(log)
    write(log, "three\n")
    assert followed.poll() == ["three"]
    followed.clock.advance(1000)
    assert followed.poll() == []


def test_a_log_that_is_read_slowly_and_truncated_leaves_no_debt(log, followed):
    write(log, "line\n" * 1000)
    followed.follower.poll(max_bytes=100)
    assert followed.follower.behind
    truncate(log)
    followed.poll()
    assert not followed.follower.behind
    assert followed.follower.lag() == 0


def test_what_was_read_slowly_and_cut_off_is_read_from_the_copy(log, copy, followed):
    lines = [f"line {number}" for number in range(1000)]
    write(log, "".join(f"{line}\n" for line in lines))
    seen = [line.data.decode() for line in followed.follower.poll(max_bytes=100)]
    shutil.copyfile(log, copy)
    for _ in range(3):
        followed.clock.advance(5)
        seen += [line.data.decode() for line in followed.follower.poll(max_bytes=100)]
    assert len(seen) < 100
    truncate(log)
    assert seen + followed.poll() == lines


def test_a_copy_that_began_empty_before_its_original_was_known_is_not_read(log, copy, followed):
    copy.touch()
    write(log, "one\n")
    os.utime(copy, (1_000_000, 1_000_000))  # so that it is looked at first
    assert followed.poll() == ["one"]
    shutil.copyfile(log, copy)
    assert followed.poll() == []


def test_copies_do_not_keep_other_files_from_being_opened(tmp_path, log):
    followed = Followed(tmp_path / "*", max_open=2)
    write(log, "one\n")
    content = log.read_bytes()
    write(log, "two\n")
    for _ in range(5):
        followed.poll()
    for number in range(3):
        (tmp_path / f"copy {number}").write_bytes(content)
    assert [line for _ in range(5) for line in followed.poll()] == []
    write(tmp_path / "other", "three\n")
    assert [line for _ in range(10) for line in followed.poll()] == ["three"]
    followed.follower.close()


def test_a_log_that_is_truncated_and_written_again_as_it_was_is_not_read_again(log, followed):
    write(log, "one\ntwo\n")
    followed.poll()
    truncate(log)
    followed.poll()
    write(log, "one\ntwo\nthree\n")
    assert followed.poll() == ["three"]


def test_files_that_share_their_first_lines_are_both_read(tmp_path, log, followed):
    header = "# fields: all of them\n"
    write(log, header + "one\n")
    assert followed.poll() == ["# fields: all of them", "one"]
    write(tmp_path / "app.jsonl-other", header)
    followed.poll()
    write(tmp_path / "app.jsonl-other", "two\n")
    assert followed.poll() == ["# fields: all of them", "two"]


def test_a_copy_that_was_there_before_the_follower_is_read_once_with_its_original(log, copy, followed):
    write(log, "one\ntwo\n")
    shutil.copyfile(log, copy)
    write(log, "three\n")
    assert followed.poll() == ["one", "two", "three"]
    followed.clock.advance(100)
    assert followed.poll() == []


def test_a_writer_that_kept_its_place_leaves_a_hole_and_its_lines_are_read(log, followed):
    with log.open("w") as writer:  # not in append mode
        writer.write("one\n" * 1000)
        writer.flush()
        followed.poll()
        truncate(log)
        writer.write("two\n")
        writer.flush()
        assert log.stat().st_size == 4004
        assert followed.poll() == ["two"]
        writer.write("three\n")
    assert followed.poll() == ["three"]


def test_a_half_line_goes_with_what_was_truncated(log, followed):
    write(log, "one\nhal")
    followed.poll()
    truncate(log)
    write(log, "two\n")
    assert followed.poll() == ["two"]


@pytest.mark.parametrize("polled", [False, True], ids=["and went on at once", "and went on later"])
@pytest.mark.parametrize(("read", "kept"), [(3, 2), (3, 1), (8, 7), (9, 8), (12, 11), (40, 35)], ids=str)
def test_a_log_that_was_cut_down_to_a_part_goes_on_after_it(log, followed, read, kept, polled):
    lines = [f"line {number} {'x' * number}" for number in range(read)]
    write(log, "".join(f"{line}\n" for line in lines))
    assert followed.poll() == lines
    os.truncate(log, sum(len(line) + 1 for line in lines[:kept]))
    if polled:
        assert followed.poll() == []
    new = [f"new {number} {'y' * 80}" for number in range(read)]
    write(log, "".join(f"{line}\n" for line in new))
    assert followed.poll() == new


def test_a_log_that_was_cut_within_a_line_goes_on_after_the_last_whole_one(log, followed):
    write(log, "one\ntwo\nthree\n")
    followed.poll()
    os.truncate(log, 6)
    write(log, "wo and more\n")
    assert followed.poll() == ["twwo and more"]


def test_a_log_that_was_cut_down_far_from_any_place_that_is_known_loses_nothing_new(log, followed):
    lines = [f"line {number} {'x' * 500}" for number in range(100)]
    write(log, "".join(f"{line}\n" for line in lines))
    followed.poll()
    write(log, "".join(f"{line}\n" for line in lines[:50]), mode="w")
    write(log, "".join(f"new {line}\n" for line in lines))
    seen = followed.poll()
    assert seen[-100:] == [f"new {line}" for line in lines]
    assert not set(seen) & set(lines[:8])


def test_pieces_before_the_cut_stay_with_their_line(log, followed):
    stamp = "2026-03-02T12:30:00Z"
    write(log, f"{stamp} stdout F one\n{stamp} stdout P aa\n{stamp} stdout F lost\n")
    assert followed.poll() == ["one", "aalost"]
    os.truncate(log, log.read_bytes().index(b" F lost") - len(f"{stamp} stdout"))
    write(log, f"{stamp} stdout F bb and more\n")
    assert followed.poll() == ["aabb and more"]
