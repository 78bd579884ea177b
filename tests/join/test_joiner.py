from __future__ import annotations

import json

import pytest

from support.joins import KEY, WINDOW, Desk, T, arrival, edge, engine, sample
from vllm_observe.join.claims import Claims
from vllm_observe.join.joiner import (
    EXPECT_S,
    MAX_RECORDS,
    REMEMBER_S,
    REMEMBER_WINDOWS,
    SETTLE_S,
)
from vllm_observe.join.skew import ENOUGH
from vllm_observe.model import Cause, Evidence, Outcome, Parts
from vllm_observe.plugin.names import bounded
from vllm_observe.records.format1 import decode


def ids(requests):
    return [(request.request_id, request.attempt, request.parts.value) for request in requests]


def test_an_edge_record_and_its_engine_part_are_one_request():
    (request,) = Desk().join(edge("abc", session_id="s1"), engine("chatcmpl-abc", model="tiny"))
    assert request.parts is Parts.BOTH
    assert (request.request_id, request.session_id, request.model_name) == ("abc", "s1", "tiny")


def test_the_order_of_the_sides_does_not_matter():
    parts = [edge("abc"), engine("chatcmpl-abc")]
    assert Desk().join(*parts) == Desk().join(*reversed(parts))


def test_a_whole_request_closes_a_short_while_after_its_last_part():
    desk = Desk()
    desk.add(engine("chatcmpl-abc"))
    desk.clock.advance(1.0)
    desk.add(edge("abc"))
    assert desk.after(SETTLE_S - 0.1) == []
    assert ids(desk.after(0.2)) == [("abc", 1, "both")]
    assert desk.joiner.pending == 0


def test_a_side_that_never_told_anything_is_not_waited_for():
    desk = Desk()
    desk.add(edge("abc"))
    assert ids(desk.after(SETTLE_S)) == [("abc", 1, "edge")]
    other = Desk()
    other.join(engine("chatcmpl-first"))
    other.add(engine("chatcmpl-abc"))
    assert ids(other.after(SETTLE_S)) == [("chatcmpl-abc", 1, "engine")]


@pytest.mark.parametrize("pause", [0.0, EXPECT_S])
def test_the_first_engine_part_after_a_start_or_a_pause_waits_for_its_edge_record(pause):
    desk = Desk()
    if pause:
        desk.join(edge("first"), engine("chatcmpl-first"))
    desk.after(pause)
    desk.add(engine("chatcmpl-abc", start=pause))
    assert desk.after(3.5) == []
    desk.add(edge("abc", start=pause, profile="coder"))
    (request,) = desk.after(SETTLE_S)
    assert (request.request_id, request.parts, request.profile) == ("abc", Parts.BOTH, "coder")


def test_the_first_edge_record_waits_for_no_engine():
    desk = Desk()
    desk.after(EXPECT_S)
    desk.add(edge("abc"))
    assert ids(desk.after(SETTLE_S)) == [("abc", 1, "edge")]


def test_an_engine_that_never_has_edge_records_is_waited_for_during_one_window_only():
    desk = Desk()
    desk.add(engine("chatcmpl-a"))
    desk.after(WINDOW / 2)
    desk.add(engine("chatcmpl-b"))
    assert desk.after(SETTLE_S) == []
    assert ids(desk.after(WINDOW / 2 - SETTLE_S)) == [("chatcmpl-a", 1, "engine")]
    desk.add(engine("chatcmpl-c"))
    assert ids(desk.after(SETTLE_S)) == [("chatcmpl-c", 1, "engine")]


def test_a_side_that_told_of_others_is_waited_for_until_the_window_ends():
    desk = Desk()
    desk.add(engine("chatcmpl-other"), edge("abc"))
    assert desk.after(WINDOW - 0.1) == []
    assert ids(desk.after(0.2)) == [("chatcmpl-other", 1, "engine"), ("abc", 1, "edge")]


def test_a_side_that_has_been_silent_for_minutes_is_waited_for_no_longer():
    desk = Desk()
    desk.join(edge("first"), engine("chatcmpl-first"))
    desk.after(EXPECT_S)
    desk.add(edge("abc"))
    assert ids(desk.after(SETTLE_S)) == [("abc", 1, "edge")]


def test_an_id_that_nothing_matches_is_still_a_request():
    (request,) = Desk().join(edge("never-reached-vllm", took=0.004, status=502, outcome=Outcome.ERROR))
    assert (request.parts, request.edges[0].status) == (Parts.EDGE, 502)


# --- Identity


# --- Arrivals


def test_a_request_that_only_arrived_is_never_handed_out():
    desk = Desk()
    assert desk.join(arrival("chatcmpl-abc")) == []
    assert desk.after(REMEMBER_WINDOWS * WINDOW) == []
    assert desk.joiner.drain() == []
    assert (desk.joiner.pending, desk.joiner.stats.amended) == (0, 0)


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (engine("chatcmpl-abc", took=90, finish_reason="abort"), ("chatcmpl-abc", 1, "engine")),
        (engine("chatcmpl-abc", start=90, took=None), ("chatcmpl-abc", 1, "engine")),
        (edge("abc", took=90), ("abc", 1, "both")),
    ],
)
def test_an_end_that_comes_long_after_the_arrival_is_the_first_attempt_and_amends_nothing(end, expected):
    desk = Desk()
    assert desk.join(arrival("chatcmpl-abc")) == []
    (request,) = desk.join(end)
    assert ids([request]) == [expected]
    assert not request.amends
    assert desk.joiner.stats.amended == 0


def test_an_arrival_goes_to_the_edge_record_and_says_nothing_of_the_end():
    (request,) = Desk().join(arrival("chatcmpl-abc", max_tokens=64), edge("abc", outcome=Outcome.TIMEOUT))
    assert (request.parts, request.outcome) == (Parts.BOTH, Outcome.TIMEOUT)


def test_arrivals_do_not_keep_the_clocks_from_being_compared():
    desk = Desk()
    for number in range(ENOUGH):
        start = number * 10.0
        desk.add(
            edge(f"r{number}", start=start + 5.0, source="app"),
            arrival(f"chatcmpl-r{number}", at=start, source="log"),
            engine(f"chatcmpl-r{number}", start=start, took=3.9, source="plugin"),
        )
        desk.after(10.0)
    assert desk.joiner.skews.of("app", "plugin") == pytest.approx(5.05, abs=0.1)


def test_an_engine_part_goes_to_the_longest_id_that_is_known():
    desk = Desk()
    closed = sorted(
        desk.join(edge("job"), edge("job-deadbeef"), engine("chatcmpl-job-deadbeef")),
        key=lambda one: one.request_id,
    )
    assert ids(closed) == [("job", 1, "edge"), ("job-deadbeef", 1, "both")]


@pytest.mark.parametrize("endpoint", ["cmpl", "embd", "pool", "classify", "score", "rerank"])
@pytest.mark.parametrize("suffix", ["", "-9be01f77", "-12345678"])
@pytest.mark.parametrize("child", ["", "0_"])
def test_where_prompts_have_an_index_the_id_without_one_is_meant(endpoint, suffix, child):
    def part(rest):
        return engine(f"{child}{endpoint}-{rest}{suffix}")

    closed = Desk().join(edge("job"), edge("job-1"), part("job-0"), part("job-1"), part("job-1-0"))
    served = {request.request_id: [one.request_id for one in request.engines] for request in closed}
    assert served["job"] == [part("job-0").request_id, part("job-1").request_id]
    assert served["job-1"] == [part("job-1-0").request_id]


@pytest.mark.parametrize("shared", [40, 200, 230, 245, 300, 900_000])
def test_ids_that_begin_alike_keep_their_own_parts_whatever_their_length(shared):
    clients = [bounded("p" * shared + end) for end in ("-0a1b2c3d4e5f", "-1a1b2c3d4e5f", "x")]
    parts = [
        engine(bounded(f"chatcmpl-{'p' * shared}{end}-9be01f77"))
        for end in ("-0a1b2c3d4e5f", "-1a1b2c3d4e5f", "x")
    ]
    closed = Desk().join(*map(edge, clients), *parts)
    served = {request.request_id: request.engines for request in closed}
    assert served == {client: (part,) for client, part in zip(clients, parts, strict=True)}


def test_an_id_that_becomes_known_later_still_counts():
    for order in ([0, 1, 2], [1, 0, 2], [2, 0, 1], [2, 1, 0]):
        records = [edge("job"), engine("chatcmpl-job-deadbeef"), edge("job-deadbeef")]
        closed = Desk().join(*(records[i] for i in order))
        assert sorted(ids(closed)) == [("job", 1, "edge"), ("job-deadbeef", 1, "both")]


def test_of_two_known_ids_the_one_whose_time_fits_is_meant():
    closed = Desk().join(
        edge("job", start=0), edge("job-deadbeef", start=100), engine("chatcmpl-job-deadbeef", start=0)
    )
    assert ids(closed) == [("job", 1, "both"), ("job-deadbeef", 1, "edge")]


def test_an_id_that_the_app_took_from_the_response_joins_as_it_is():
    (request,) = Desk().join(edge("chatcmpl-abc"), engine("chatcmpl-abc"))
    assert (request.request_id, request.parts) == ("chatcmpl-abc", Parts.BOTH)


def test_both_forms_of_an_id_that_vllm_logs_belong_to_the_request():
    closed = Desk().join(edge("abc"), engine("chatcmpl-abc"), engine("chatcmpl-abc-9be01f77", took=3.0))
    assert ids(closed) == [("abc", 1, "both")]
    assert len(closed[0].engines) == 2


# --- Attempts, children, nesting


def test_a_retry_with_the_same_id_is_another_attempt():
    closed = Desk().join(
        edge(start=0, took=2, outcome=Outcome.TIMEOUT),
        edge(start=3, took=1),
        engine(start=0.1, took=1.8, finish_reason="abort"),
        engine(start=3.1, took=0.8),
    )
    assert ids(closed) == [("abc", 1, "both"), ("abc", 2, "both")]
    assert [request.outcome for request in closed] == [Outcome.TIMEOUT, Outcome.OK]


def test_a_retry_after_the_first_attempt_has_closed_goes_on_counting():
    desk = Desk()
    assert ids(desk.join(edge(start=0))) == [("abc", 1, "edge")]
    assert ids(desk.join(edge(start=100))) == [("abc", 2, "edge")]
    assert ids(desk.join(edge(start=200))) == [("abc", 3, "edge")]


def test_an_id_that_comes_again_after_many_windows_is_no_retry():
    desk = Desk()
    desk.join(edge(start=0), engine(start=0))
    desk.clock.advance(REMEMBER_WINDOWS * WINDOW - 1)
    assert ids(desk.join(edge(start=600))) == [("abc", 2, "edge")]
    desk.clock.advance(REMEMBER_WINDOWS * WINDOW)
    assert ids(desk.join(edge(start=1200))) == [("abc", 1, "edge")]
    assert list(desk.joiner._closed.groups) == ["abc"]


def test_an_id_is_remembered_for_some_minutes_however_short_the_window_is():
    desk = Desk()
    desk.joiner.window = 1.0
    desk.join(edge(start=0))
    desk.clock.advance(REMEMBER_S - WINDOW)
    assert ids(desk.join(edge(start=600))) == [("abc", 2, "edge")]


def test_records_of_app_proxy_and_middleware_are_one_attempt_outermost_first():
    app = edge(start=0, took=4.0, session_id="s1")
    proxy = edge(start=0.1, took=3.8, status=200)
    middleware = edge(start=0.2, took=3.6, ttft_s=0.5)
    (request,) = Desk().join(middleware, app, proxy)
    assert request.edges == (app, proxy, middleware)
    assert (request.duration_s, request.ttft_s, request.session_id) == (4.0, 0.5, "s1")


@pytest.mark.parametrize("gap", [0.001, 0.02, 0.04])
def test_a_quick_retry_in_one_log_is_an_attempt_of_its_own(gap):
    refused = edge(start=0, took=0.003, outcome=Outcome.REJECTED, status=503, source="app")
    again = edge(start=0.003 + gap, took=0.02, source="app")
    parts = [engine("chatcmpl-abc", start=0.004 + gap, took=0.018)]
    closed = Desk().join(refused, again, *parts)
    assert [(one.attempt, one.outcome, len(one.engines)) for one in closed] == [
        (1, Outcome.REJECTED, 0),
        (2, Outcome.OK, 1),
    ]
    # Of two logs the clocks may differ by as much.
    assert len(Desk().join(refused, edge(start=0.003 + gap, took=0.02, source="proxy"))) == 1


def test_clocks_that_round_do_not_make_two_attempts():
    closed = Desk().join(edge(start=0, took=4.0), edge(start=0.01, took=4.02))
    assert len(closed) == 1


def test_a_clock_of_whole_seconds_does_not_make_two_attempts():
    coarse = edge(start=-0.25, took=4.0)
    assert coarse.ts % 1 == 0
    assert len(Desk().join(coarse, edge(start=0.5, took=3.9))) == 1


def test_two_requests_at_once_under_one_id_are_never_merged():
    closed = Desk().join(
        edge(start=0, took=4),
        edge(start=2, took=4),
        engine(start=0.1, took=3.8),
        engine(start=2.1, took=3.8),
    )
    assert [(request.duration_s, len(request.engines)) for request in closed] == [(4, 1), (4, 1)]
    assert [request.engines[0].ts < T + 5 for request in closed] == [True, False]


def test_parts_that_fit_two_attempts_pair_up():
    closed = Desk().join(
        edge(start=0, took=4), edge(start=1, took=4), engine(start=1.5, took=1), engine(start=1.6, took=2)
    )
    assert [len(request.engines) for request in closed] == [1, 1]


def test_children_and_prompts_are_engine_parts_of_one_request():
    closed = Desk().join(
        edge("abc"),
        engine("0_cmpl-abc-0", completion_tokens=5),
        engine("1_cmpl-abc-0", completion_tokens=6),
        engine("0_cmpl-abc-1", completion_tokens=7),
    )
    assert ids(closed) == [("abc", 1, "both")]
    assert closed[0].completion_tokens == 18


def test_both_legs_of_a_prefill_decode_pair_are_engine_parts_of_one_request():
    (request,) = Desk().join(
        edge(took=4),
        engine(start=0.1, took=1, engine="0", queue_s=0.1, prefill_s=0.8, decode_s=0.0),
        engine(start=1.2, took=2.5, engine="1", queue_s=0.0, prefill_s=0.1, decode_s=2.3),
    )
    assert request.phases.queue == pytest.approx(0.1)
    assert request.phases.prefill == pytest.approx(0.9)
    assert request.phases.decode == pytest.approx(2.3)
    assert request.phases.outside == pytest.approx(0.7)


def test_engine_parts_without_any_edge_are_told_apart_by_time():
    closed = Desk().join(engine(start=0, took=1), engine(start=0.5, took=1), engine(start=30, took=1))
    assert [(request.attempt, len(request.engines)) for request in closed] == [(1, 2), (2, 1)]


# --- Twice, late


def test_a_line_that_is_read_twice_is_one_record():
    desk = Desk()
    (request,) = desk.join(edge(), edge(), engine(), engine())
    assert (len(request.edges), len(request.engines)) == (1, 1)


def test_a_line_that_is_read_again_after_its_request_has_closed_is_no_other_request():
    desk = Desk()
    desk.join(edge(), engine())
    assert desk.join(edge(), engine()) == []
    assert desk.join(edge(), engine()) == []


LATE = [
    (edge(), engine()),
    (engine(), edge()),
    (engine("abc"), edge("abc")),
    (edge(start=0.1, took=3.8), edge(start=0, took=4)),
]


@pytest.mark.parametrize(("first", "late"), LATE)
def test_a_part_that_comes_late_amends_its_request_and_is_no_retry(first, late):
    desk = Desk()
    (before,) = desk.join(first)
    (after,) = desk.join(late)
    assert (before.amends, after.amends) == (False, True)
    assert (after.uid, after.request_id, after.attempt) == (before.uid, "abc", 1)
    assert len(after.edges) + len(after.engines) == 2
    assert desk.join(first, late) == []
    assert desk.joiner.stats.amended == 1
    assert ids(desk.join(edge(start=100))) == [("abc", 2, "edge")]


def test_an_amended_request_has_what_the_late_part_tells():
    desk = Desk(classify=lambda request, _: Evidence(Cause.UNKNOWN, str(request.completion_tokens)))
    (before,) = desk.join(edge(outcome=Outcome.OK))
    (after,) = desk.join(engine(finish_reason="abort", completion_tokens=7))
    assert (before.outcome, before.parts, before.evidence.text) == (Outcome.OK, Parts.EDGE, "None")
    assert (after.outcome, after.parts, after.evidence.text) == (Outcome.ABORT, Parts.BOTH, "7")


def test_a_request_that_is_amended_twice_keeps_its_name():
    desk = Desk()
    told = [
        *desk.join(engine("0_chatcmpl-abc", completion_tokens=5)),
        *desk.join(edge()),
        *desk.join(engine("1_chatcmpl-abc", completion_tokens=6)),
    ]
    assert [request.amends for request in told] == [False, True, True]
    assert len({request.uid for request in told}) == 1
    assert [request.completion_tokens for request in told] == [5, 5, 11]
    assert [request.claimed.completion for request in told] == [0, 5, 5]


def test_two_that_were_handed_out_apart_and_are_one_name_each_other():
    desk = Desk()
    apart = desk.join(engine(start=0, took=1), engine(start=1.5, took=1, completion_tokens=3))
    (one,) = desk.join(edge(start=0, took=3))
    assert [request.amends for request in apart] == [False, False]
    assert (one.amends, one.uid, one.absorbs) == (True, apart[0].uid, (apart[1].uid,))
    assert (one.attempt, len(one.engines), one.claimed.completion) == (1, 2, 3)
    # What was said once is not said again.
    (again,) = desk.join(engine(start=0, took=2.5))
    assert (again.uid, again.absorbs) == (apart[0].uid, ())


def test_of_two_attempts_that_were_taken_for_one_the_second_is_a_request_too():
    desk = Desk()
    (one,) = desk.join(engine(start=0.1, took=3), engine(start=2.1, took=3))
    first, second = desk.join(edge(start=0, took=4), edge(start=2, took=4))
    assert (first.uid, first.amends, first.attempt) == (one.uid, True, 1)
    assert (second.amends, second.attempt) == (False, 2)
    assert second.uid != one.uid


def test_a_name_is_the_same_after_a_restart_and_another_for_every_attempt():
    records = [edge(start=0, took=2), edge(start=3, took=1), engine(start=0.1, took=1), edge("b"), edge("c")]
    before, after = Desk().join(*records), Desk().join(*reversed(records))
    assert {request.uid for request in before} == {request.uid for request in after}
    assert len({request.uid for request in before}) == 4


def test_a_retry_is_not_swallowed_by_an_engine_part_that_had_been_left_alone():
    desk = Desk()
    (first,) = desk.join(engine(start=0, took=2))
    (second,) = desk.join(edge(start=70, took=2, outcome=Outcome.ABORT))
    assert (first.parts, second.parts) == (Parts.ENGINE, Parts.EDGE)
    assert (second.request_id, second.attempt, second.amends) == ("abc", 2, False)
    assert ids(desk.join(engine(start=70.5, took=1))) == [("abc", 2, "both")]


def test_an_engine_part_of_another_time_is_not_taken_for_a_child():
    closed = Desk().join(engine(start=0, took=2), edge(start=20, took=3), engine(start=20.5, took=2))
    assert ids(closed) == [("abc", 1, "engine"), ("abc", 2, "both")]


# --- Bounds


def test_the_longest_waiting_request_closes_early_when_too_many_wait():
    desk = Desk(max_pending=3)
    desk.add(*(edge(f"r{i}") for i in range(5)))
    assert desk.joiner.pending == 3
    assert ids(desk.after(0)) == [("r0", 1, "edge"), ("r1", 1, "edge")]
    assert desk.joiner.stats.early == 2


def test_an_id_that_everybody_sends_is_bounded_too():
    desk = Desk()
    sent = 10 * MAX_RECORDS
    told = []
    for i in range(sent):
        desk.add(edge("test", start=10 * i))
        told += desk.after(0)
    told += desk.after(WINDOW)
    assert [request.attempt for request in told] == list(range(1, sent + 1))


def test_what_was_closed_is_remembered_within_the_same_bound():
    desk = Desk(max_pending=3)
    for i in range(20):
        desk.join(edge(f"r{i}"), engine(f"chatcmpl-r{i}"))
    assert ids(desk.join(edge("r19", start=100))) == [("r19", 2, "edge")]
    assert ids(desk.join(edge("r0", start=100))) == [("r0", 1, "edge")]
    assert len(desk.joiner._closed.groups) <= 3
    assert len(desk.joiner._claims) <= 3


def test_nothing_is_left_behind_when_the_process_ends():
    desk = Desk()
    desk.add(engine("chatcmpl-b"), edge("a"), edge("b"), engine("chatcmpl-c"))
    assert sorted(ids(desk.joiner.drain())) == [
        ("a", 1, "edge"),
        ("b", 1, "both"),
        ("chatcmpl-c", 1, "engine"),
    ]
    assert desk.joiner.pending == 0


def test_a_request_with_two_thousand_prompts_is_one_request():
    parts = [engine(f"embd-abc-{i}", start=i / 1000, took=1.0) for i in range(2048)]
    (request,) = Desk(max_pending=5000).join(*parts, edge("abc"))
    assert len(request.engines) == 2048


def long_id(tail, head=""):
    """An id of a megabyte, in the form that every record gives it."""
    line = {"request_id": f"{head}{'x' * 1_000_000}{tail}", "ts": T, "status": 200}
    return decode(json.dumps(line).encode()).request_id


def test_two_ids_of_a_megabyte_that_begin_alike_are_two():
    one, other = long_id("1"), long_id("2")
    found = Desk().join(
        edge(one, took=4), edge(other, start=1, took=2), edge(one, start=0.5, took=3), edge(other, start=50)
    )
    assert {(request.request_id, request.attempt, len(request.edges)) for request in found} == {
        (one, 1, 2),
        (other, 1, 1),
        (other, 2, 1),
    }


def test_an_engine_part_of_a_megabyte_goes_where_its_time_fits():
    one, other = long_id("1"), long_id("2")
    part = engine(long_id("2-9be01f77", head="chatcmpl-"), start=21, took=2)
    for order in ([edge(one), edge(other, start=20), part], [part, edge(other, start=20), edge(one)]):
        desk = Desk()
        assert {request.request_id: request.parts for request in desk.join(*order)} == {
            one: Parts.EDGE,
            other: Parts.BOTH,
        }
    desk.after(REMEMBER_WINDOWS * WINDOW)
    desk.add(edge("later"))
    assert desk.joiner._claims._long == {}


# --- What goes into the request


def test_thousands_of_prompts_that_end_one_after_the_other_cost_little_each(monkeypatch):
    looked_at = 0
    find_owner = Claims.owner

    def owner(*args):
        nonlocal looked_at
        looked_at += 1
        return find_owner(*args)

    monkeypatch.setattr(Claims, "owner", owner)
    desk, prompts = Desk(max_pending=10_000), 2000
    desk.add(edge("abc", took=20))
    for number in range(prompts):
        desk.add(engine(f"cmpl-abc-{number}", took=number / 100))
        assert desk.after(1 / 100) == []
    (request,) = desk.after(SETTLE_S)
    assert len(request.engines) == prompts
    assert looked_at < 10 * prompts


def test_the_samples_before_arrival_and_before_the_end_come_along():
    desk = Desk(*(sample(at, running=at) for at in (-5.0, -1.0, 3.0, 5.0)))
    (request,) = desk.join(edge(start=0, took=4, model="tiny"))
    assert (request.before_arrival.running, request.before_end.running) == (-1.0, 3.0)


def test_an_alias_means_the_only_model():
    desk = Desk(sample(-1.0, running=2))
    (request,) = desk.join(edge(model="my-alias"))
    assert request.before_arrival.key == KEY


def test_a_stale_sample_is_no_sample():
    (request,) = Desk(sample(-100.0, running=2)).join(edge(model="tiny"))
    assert (request.before_arrival, request.before_end) == (None, None)


def test_of_several_engines_the_one_that_served_is_looked_at():
    other = KEY._replace(engine="1")
    desk = Desk(sample(-1.0, running=2), sample(-1.0, key=other, running=7))
    known, unknown = desk.join(
        edge("a"), engine("chatcmpl-a", model="tiny", engine="1"), edge("b", start=5, model="tiny")
    )
    assert known.before_arrival.running == 7
    assert unknown.before_arrival is None


def test_the_cause_is_asked_of_each_request_once():
    asked = []

    def classify(request, around):
        asked.append((request.request_id, len(around.during)))
        return Evidence(Cause.UNKNOWN, "because")

    desk = Desk(sample(1.0, running=1), classify=classify)
    closed = desk.join(edge("a"), edge("b"), engine("chatcmpl-a"))
    assert [request.evidence.text for request in closed] == ["because"] * 2
    assert asked == [("a", 1), ("b", 1)]


def test_a_fault_in_naming_a_cause_costs_that_cause_alone():
    def classify(request, _around):
        if request.attempt == 1:
            raise ZeroDivisionError
        return Evidence(Cause.REJECTED, "because")

    desk = Desk(sample(1.0, running=1), classify=classify)
    closed = desk.join(edge("a"), edge("a", start=10), edge("b", status=200, completion_tokens=7))
    assert [(one.request_id, one.attempt, one.evidence.cause) for one in closed] == [
        ("a", 1, Cause.UNKNOWN),
        ("a", 2, Cause.REJECTED),
        ("b", 1, Cause.UNKNOWN),
    ]
    assert closed[2].completion_tokens == 7
    assert desk.faults.count == 2


def test_what_closes_at_once_can_be_bounded_and_the_rest_comes_with_the_next_calls():
    desk = Desk()
    desk.add(*(edge(f"r{number}") for number in range(5)))
    desk.clock.advance(SETTLE_S)
    handed_out = [len(desk.joiner.close_due(desk.clock.monotonic(), most=2)) for _ in range(4)]
    assert handed_out == [2, 2, 1, 0]
    desk.add(*(edge(f"s{number}") for number in range(3)))
    assert [len(desk.joiner.drain(most=2)) for _ in range(3)] == [2, 1, 0]
