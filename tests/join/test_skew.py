from __future__ import annotations

import random

import msgspec
import pytest

from support.joins import Desk, edge, engine
from vllm_observe.join.skew import ENOUGH, Skews
from vllm_observe.model import Outcome, Parts

PLUGIN = "/logs/vllm.jsonl"
APP = "/logs/app.jsonl"


def pair(number, *, ahead=0.0, before=0.1, after=0.1, took=2.0, **values):
    """One request by an app whose clock is ahead, and by the engine."""
    start = 10.0 * number
    seen = edge(f"r{number}", start=start + ahead, took=took, source=APP, **values)
    part = engine(
        f"chatcmpl-r{number}", start=start + before, took=took - before - after, source=PLUGIN, queue_s=0.1
    )
    return seen, part


def learned(pairs):
    skews = Skews()
    for seen, part in pairs:
        skews.observe(seen, part)
    return skews


@pytest.mark.parametrize("ahead", [-7200.0, -5.0, -0.5, 0.8, 5.0, 3600.0])
def test_a_clock_that_is_systematically_off_is_known_within_what_was_outside(ahead):
    chance = random.Random(1)
    pairs = [
        pair(i, ahead=ahead, before=chance.uniform(0.001, 0.3), after=chance.uniform(0.001, 0.3))
        for i in range(3 * ENOUGH)
    ]
    # Each pair allows for what it spent outside; together they allow for what the quickest did.
    assert learned(pairs).of(APP, PLUGIN) == pytest.approx(ahead, abs=0.1)


def test_a_clock_that_keeps_time_is_known_to_be_right_however_unequal_the_two_ends_are():
    pairs = [pair(i, before=0.9, after=0.001) for i in range(ENOUGH)]
    assert learned(pairs).of(APP, PLUGIN) == 0.0


def test_nothing_is_known_of_a_few_requests():
    skews = learned([pair(i, ahead=5.0) for i in range(ENOUGH - 1)])
    assert skews.of(APP, PLUGIN) is None
    assert skews.known() == {}
    assert skews.of(APP, "elsewhere") is None


def test_a_few_that_are_wrong_do_not_matter():
    wrong = [pair(i, ahead=1000.0) for i in range(4)]
    right = [pair(i, ahead=5.0) for i in range(4, 2 * ENOUGH)]
    assert learned(wrong + right).of(APP, PLUGIN) == pytest.approx(5.0, abs=0.15)


def test_two_clocks_under_one_name_are_not_put_right():
    pairs = [pair(i, ahead=5.0 * (i % 2)) for i in range(4 * ENOUGH)]
    assert learned(pairs).of(APP, PLUGIN) is None


def test_a_clock_that_is_put_right_is_believed_again():
    off = [pair(i, ahead=5.0) for i in range(100)]
    assert learned([*off, *(pair(i) for i in range(100, 200))]).of(APP, PLUGIN) == 0.0


def test_who_did_not_wait_for_the_end_or_has_no_duration_tells_nothing():
    left = [pair(i, ahead=5.0, outcome=Outcome.ABORT) for i in range(50)]
    unknown = [(msgspec.structs.replace(seen, duration_s=None), part) for seen, part in map(pair, range(50))]
    assert learned([*left, *unknown]).of(APP, PLUGIN) is None


def test_whole_seconds_are_no_skew():
    pairs = [pair(i, before=0.01, after=0.01) for i in range(ENOUGH)]
    coarse = [(msgspec.structs.replace(seen, ts=float(int(seen.ts))), part) for seen, part in pairs]
    assert learned(coarse).of(APP, PLUGIN) == 0.0


def test_memory_is_bounded_in_sources():
    skews = Skews(limit=3)
    for number in range(100):
        seen, part = pair(number)
        skews.observe(msgspec.structs.replace(seen, source=f"app-{number}"), part)
    assert len(skews._pairs) == 3


# --- In the joiner


def taught(ahead, count=ENOUGH, **values):
    desk = Desk()
    told = [one for i in range(count) for one in desk.join(*pair(i, ahead=ahead, **values))]
    return desk, told


def test_once_a_clock_is_known_its_records_are_put_on_the_engines():
    desk, before = taught(5.0)
    assert {one.parts for one in before} == {Parts.BOTH}
    (request,) = desk.join(*pair(100, ahead=5.0))
    assert request.edges[0].skew_s == pytest.approx(5.0, abs=0.15)
    assert request.edges[0].ts == pytest.approx(request.engines[0].ts, abs=0.3)
    assert request.ended_at - request.duration_s == pytest.approx(request.engines[0].started_at, abs=0.3)


def test_a_line_that_is_read_again_is_known_though_its_time_was_put_right():
    desk, _ = taught(5.0)
    records = pair(100, ahead=5.0)
    assert len(desk.join(*records)) == 1
    assert desk.join(*records) == []


def test_the_apps_and_the_middlewares_records_nest_though_their_clocks_differ():
    desk, _ = taught(20.0)
    app, part = pair(100, ahead=20.0)
    middleware = edge("r100", start=1000.05, took=1.9, source=PLUGIN)
    (request,) = desk.join(app, middleware, part)
    assert [one.source for one in request.edges] == [APP, PLUGIN]
    assert request.duration_s == 2.0


def test_retries_pair_up_with_their_parts_though_the_clock_is_off_by_more_than_they_take():
    desk, _ = taught(4.0)
    one, two = pair(100, ahead=4.0, took=2.0), pair(100, ahead=4.0, took=2.0)
    later = [
        msgspec.structs.replace(two[0], ts=two[0].ts + 3),
        msgspec.structs.replace(two[1], ts=two[1].ts + 3),
    ]
    closed = desk.join(*one, *later)
    assert [(request.attempt, request.parts) for request in closed] == [(1, Parts.BOTH), (2, Parts.BOTH)]
    assert [request.engines[0].ts - request.edges[0].ts < 0.5 for request in closed] == [True, True]


def test_a_record_without_an_engine_part_is_put_right_too():
    desk, _ = taught(5.0)
    (request,) = desk.join(pair(100, ahead=5.0)[0])
    assert request.edges[0].skew_s == pytest.approx(5.0, abs=0.15)


def test_a_name_does_not_depend_on_what_is_known_of_the_clock():
    desk, _ = taught(5.0)
    records = pair(100, ahead=5.0)
    assert desk.join(*records)[0].uid == Desk().join(*records)[0].uid


def test_a_clock_that_is_hours_off_costs_the_first_requests_only():
    desk, before = taught(7200.0)
    assert {one.parts for one in before[:-2]} == {Parts.EDGE, Parts.ENGINE}
    assert {one.parts for i in range(100, 110) for one in desk.join(*pair(i, ahead=7200.0))} == {Parts.BOTH}


def test_a_clock_that_is_set_right_splits_no_request():
    desk, _ = taught(7.0)
    closed = [one for i in range(100, 150) for one in desk.join(*pair(i))]
    assert {(one.parts, one.attempt) for one in closed} == {(Parts.BOTH, 1)}
    assert len(closed) == 50
    assert all(one.edges[0].skew_s is None for one in closed)
