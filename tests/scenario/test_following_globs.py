"""Sources that name many files, some of them late."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from support.logs import Followed, write
from vllm_observe.records import memory
from vllm_observe.records.files import FileId
from vllm_observe.records.source import Source, Start


def test_a_file_that_comes_late_is_found(tmp_path):
    followed = Followed(tmp_path / "*.jsonl")
    assert followed.poll() == []
    write(tmp_path / "late.jsonl", "one\n")
    assert followed.poll() == ["one"]
    followed.follower.close()


def test_a_glob_may_lead_through_directories(tmp_path):
    followed = Followed(tmp_path / "**" / "[ab]?.jsonl")
    for path in ("a1.jsonl", "pod/b2.jsonl", "pod/deep/a3.jsonl", "pod/c4.jsonl", "pod/.a5.jsonl"):
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        write(tmp_path / path, f"{path}\n")
    assert sorted(followed.poll()) == ["a1.jsonl", "pod/b2.jsonl", "pod/deep/a3.jsonl"]
    followed.follower.close()


def test_a_name_that_looks_like_a_glob_is_itself(tmp_path):
    write(tmp_path / "app[1].jsonl", "one\n")
    followed = Followed(tmp_path / "app[1].jsonl")
    assert followed.poll() == ["one"]
    followed.follower.close()


def test_at_first_the_oldest_file_is_read_first(tmp_path):
    for age, name in ((30, "c"), (20, "a"), (10, "b")):
        write(tmp_path / name, f"{name}\n")
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    followed = Followed(tmp_path / "*")
    assert followed.poll() == ["c", "a", "b"]
    followed.follower.close()


def test_a_source_may_begin_at_the_end_of_what_is_there_at_its_first_start(tmp_path):
    write(tmp_path / "app.jsonl", "old\nhalf")
    followed = Followed(Source(str(tmp_path / "*.jsonl"), start=Start.END))
    assert followed.poll() == []
    write(tmp_path / "app.jsonl", " and whole\n")
    write(tmp_path / "late.jsonl", "late\n")
    assert sorted(followed.poll()) == ["half and whole", "late"]
    followed.restart()
    write(tmp_path / "app.jsonl", "new\n")
    write(tmp_path / "later.jsonl", "later\n")
    assert sorted(followed.poll()) == ["later", "new"]
    followed.follower.close()


def test_a_source_that_is_new_may_begin_at_the_end_too(tmp_path):
    write(tmp_path / "known.jsonl", "one\n")
    write(tmp_path / "app.jsonl", "old\n")
    followed = Followed(Source(str(tmp_path / "known.jsonl"), start=Start.END))
    assert followed.poll() == []
    write(tmp_path / "known.jsonl", "two\n")
    followed.sources.append(Source(str(tmp_path / "app.jsonl"), start=Start.END))
    followed.restart()
    assert followed.poll() == ["two"]
    write(tmp_path / "app.jsonl", "new\n")
    assert followed.poll() == ["new"]
    followed.restart()
    write(tmp_path / "app.jsonl", "newer\n")
    assert followed.poll() == ["newer"]
    followed.follower.close()


def test_a_file_goes_on_where_it_was_though_its_source_is_new(tmp_path):
    write(tmp_path / "app.jsonl", "one\n")
    followed = Followed(tmp_path / "app.jsonl")
    assert followed.poll() == ["one"]
    write(tmp_path / "app.jsonl", "two\n")
    followed.sources[:] = [Source(str(tmp_path / "*.jsonl"), start=Start.END)]
    followed.restart()
    assert followed.poll() == ["two"]
    followed.follower.close()


def test_a_file_that_two_sources_name_belongs_to_the_first(tmp_path):
    write(tmp_path / "app.jsonl", "one\n")
    followed = Followed(Source(str(tmp_path / "app.jsonl")), Source(str(tmp_path / "*")))
    assert [line.source.path for line in followed.lines()] == [str(tmp_path / "app.jsonl")]
    followed.follower.close()


@pytest.fixture
def many(tmp_path):
    """Forty files, and a follower that may have four open."""
    for number in range(40):
        write(tmp_path / f"{number}.jsonl", f"{number}\n")
        os.utime(tmp_path / f"{number}.jsonl", (1_000_000 + number, 1_000_000 + number))
    followed = Followed(tmp_path / "*.jsonl", max_open=4)
    yield followed
    followed.follower.close()


def test_with_too_many_files_the_newest_come_first_and_the_others_in_their_turn(many):
    assert many.poll() == ["36", "37", "38", "39"]
    assert many.files.opened == 4
    assert many.follower.counts.waiting == 36
    seen = [line for _ in range(60) for line in many.poll()]
    assert sorted(map(int, seen)) == list(range(36))
    assert many.files.opened == 4
    assert many.follower.counts.waiting == 0


def test_files_beyond_what_can_be_known_wait_and_are_counted(many, monkeypatch):
    monkeypatch.setattr(memory, "MOST_KNOWN", 4)
    seen = [line for _ in range(60) for line in many.poll()]
    assert sorted(map(int, seen)) == list(range(32, 40))
    assert many.follower.counts.waiting == 32


def test_a_file_that_was_closed_for_others_goes_on_where_it_was(many, tmp_path):
    for _ in range(60):
        many.poll()
    write(tmp_path / "7.jsonl", "more\n")
    seen = [line for _ in range(5) for line in many.poll()]
    assert seen == ["more"]
    assert len(many.follower.positions().files) == 40


def test_a_file_that_was_closed_for_others_and_moved_away_goes_on_when_it_is_back(many, tmp_path):
    for _ in range(60):
        many.poll()
    (tmp_path / "7.jsonl").rename(tmp_path / "away")
    many.poll()
    write(tmp_path / "away", "more\n")
    (tmp_path / "away").rename(tmp_path / "7.jsonl")
    seen = [line for _ in range(5) for line in many.poll()]
    assert seen == ["more"]


def test_a_busy_file_does_not_hold_up_the_others(tmp_path):
    write(tmp_path / "busy.jsonl", ("x" * 99 + "\n") * 50_000)
    followed = Followed(tmp_path / "*.jsonl")
    followed.follower.poll(max_bytes=100_000)
    write(tmp_path / "quiet.jsonl", "heard\n")
    followed.clock.advance(1)
    polls = [followed.follower.poll(max_bytes=100_000) for _ in range(2)]
    assert b"heard" in {line.data for lines in polls for line in lines}
    assert all(sum(len(line.data) for line in lines) <= 100_000 for lines in polls)
    assert followed.follower.behind
    followed.follower.close()


def test_a_file_that_is_alone_behind_may_use_the_whole_poll(tmp_path):
    write(tmp_path / "busy.jsonl", ("x" * 99 + "\n") * 30_000)
    followed = Followed(tmp_path / "*.jsonl")
    assert len(followed.follower.poll(max_bytes=4_000_000)) == 30_000
    assert not followed.follower.behind
    followed.follower.close()


def test_files_that_are_all_behind_share_the_poll_evenly(tmp_path):
    for name in "ab":
        write(tmp_path / name, (name * 99 + "\n") * 30_000)
    followed = Followed(tmp_path / "*")
    read = Counter(line.data[:1] for line in followed.follower.poll(max_bytes=2_000_000))
    assert 17_000 < read[b"a"] + read[b"b"] <= 20_000
    assert abs(read[b"a"] - read[b"b"]) <= 2_700  # a chunk
    followed.follower.close()


def test_a_small_budget_serves_every_file_in_turn(tmp_path):
    for name in "abcd":
        write(tmp_path / name, f"{name} {'x' * 97}\n" * 10)
    followed = Followed(tmp_path / "*")
    served = [{line.data[:1] for line in followed.follower.poll(max_bytes=1000)} for _ in range(4)]
    assert sorted(b"".join(one) for one in served) == [b"a", b"b", b"c", b"d"]
    followed.follower.close()


def test_an_idle_poll_is_a_look_at_each_file(tmp_path):
    for number in range(10):
        write(tmp_path / f"{number}", "line\n")
    followed = Followed(tmp_path / "*")
    for _ in range(5):
        followed.poll()
    followed.files.looks = 0
    followed.follower.poll()  # within the same second: no search
    assert followed.files.looks == 10
    followed.follower.close()


def test_a_file_that_was_switched_between_look_and_open_is_opened_once(tmp_path):
    log, link = tmp_path / "app.jsonl", tmp_path / "app.jsonl.1"
    write(log, "one\n")
    link.hardlink_to(log)
    followed = Followed(tmp_path / "app.jsonl*")
    looked = followed.files.stat(str(link))
    followed.files.frozen[str(link)] = looked._replace(id=FileId(1, 1))
    assert followed.poll() == ["one"]
    assert followed.poll() == []
    assert followed.files.opened == 1
    followed.follower.close()


def test_a_search_that_takes_long_is_made_seldom(tmp_path):
    followed = Followed(tmp_path / "*")
    match = followed.files.match
    followed.files.match = lambda pattern: followed.clock.advance(0.5) or match(pattern)
    followed.poll()
    write(tmp_path / "late", "one\n")
    waits = 0
    while not followed.poll():
        waits += 1
    assert 45 <= waits <= 50  # a hundred times half a second
    followed.follower.close()
