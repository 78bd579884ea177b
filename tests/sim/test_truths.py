"""What befalls a server and its clients, and what is then true of their requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.sims import arrival, deployment, engine, run
from vllm_observe.model import Cause, Outcome
from vllm_observe.sim.engine import State
from vllm_observe.sim.labels import Promise, label
from vllm_observe.sim.play import Event, play
from vllm_observe.sim.records import edge_record, middleware_record
from vllm_observe.sim.requests import End, Ended

STRICT = Promise(ttft=1.5, tpot=1.5)


def played(server, *arrivals, events=(), until=100.0):
    told = play(server, arrivals, until=until, events=events, sample_every=1000.0)
    return {one.arrival.request_id: one for one in told if isinstance(one, Ended)}


def hang(start, end=None):
    events = [Event(start, lambda one: one.become(State.HUNG))]
    return events if end is None else [*events, Event(end, lambda one: one.become(State.SERVING))]


def test_who_gives_up_on_a_queue_was_held_by_it_and_its_server_saw_it_leave():
    found = run(
        engine(max_num_seqs=1),
        arrival("a", output=50),
        arrival("b", at=1.0, leaves_after_s=9.0, times_out=True, attempt=2),
    )
    told = label(found["b"], STRICT)

    assert (told.failed, told.cause, told.also) == (True, Cause.QUEUE_SLOTS, Cause.CLIENT_DISCONNECTED)
    assert told.attempt == 2
    assert told.spent[Cause.QUEUE_SLOTS] == 9.0


def test_who_was_deferred_waits_after_that_for_what_all_others_do():
    # b is ready at 4, and a has the only slot until 9; nobody waits any more when b gets it.
    found = run(engine(max_num_seqs=1), arrival("a", output=9), arrival("b", at=1.0, deferred_s=3.0))
    told = label(found["b"], STRICT)

    assert told.held == {"deferred": 3.0, "slots": 5.0}
    assert told.cause is Cause.QUEUE_SLOTS


def test_who_waited_when_the_engine_died_was_held_till_then():
    found = played(
        deployment(max_num_seqs=1),
        arrival("a", output=50),
        arrival("b", at=1.0),
        events=[Event(8.0, lambda one: one.crash())],
    )
    told = label(found["b"], STRICT)

    assert (told.cause, told.held) == (Cause.ENGINE_ERROR, {"slots": 7.0})
    assert sum(label(found["a"], STRICT).spent.values()) == pytest.approx(8.0)


def test_who_gives_up_on_a_long_answer_or_a_slow_one():
    slow = engine()
    slow.pace.slowdown = 5.0
    for one, cause in ((engine(), Cause.DECODE_LONG), (slow, Cause.DECODE_SLOW)):
        found = run(one, arrival("a", output=50, leaves_after_s=30.0, times_out=True))
        told = label(found["a"], STRICT)
        assert told.cause is cause
        assert sum(told.spent.values()) == pytest.approx(30.0)


def test_who_leaves_without_a_limit_just_left():
    found = run(engine(max_num_seqs=1), arrival("a", output=50), arrival("b", leaves_after_s=9.0))

    assert (label(found["b"], STRICT).cause, label(found["b"], STRICT).also) == (
        Cause.CLIENT_DISCONNECTED,
        None,
    )


@pytest.mark.parametrize("at", [0.0, 1.5], ids=["in its prefill", "in its answer"])
def test_a_hang_is_the_engine_s_error_wherever_it_meets_a_request(at):
    events = hang(at + 0.5)
    found = played(deployment(), arrival("a", output=9, leaves_after_s=20.0, times_out=True), events=events)

    told = label(found["a"], STRICT)
    assert told.cause is Cause.ENGINE_ERROR
    assert told.spent[Cause.ENGINE_ERROR] == 20.0 - at - 0.5


def test_a_hang_is_the_engine_s_error_for_those_that_queue():
    found = played(deployment(), arrival("a", at=2.0, leaves_after_s=20.0, times_out=True), events=hang(1.0))

    assert label(found["a"], STRICT).cause is Cause.ENGINE_ERROR
    assert label(found["a"], STRICT).held == {"hung": 20.0}


@pytest.mark.parametrize("start", [0.5, 1.5], ids=["before the first token", "after it"])
def test_who_outlived_a_hang_was_slow_for_it(start):
    found = played(deployment(), arrival("a", output=3), events=hang(start, start + 30.0))

    told = label(found["a"], STRICT)
    assert (told.slow, told.cause) == (True, Cause.ENGINE_ERROR)
    assert told.spent[Cause.ENGINE_ERROR] == pytest.approx(30.0)
    assert sum(told.spent.values()) == pytest.approx(33.0)


def test_sleep_is_no_error():
    events = [
        Event(1.0, lambda one: one.become(State.SLEEPING)),
        Event(9.0, lambda one: one.become(State.SERVING)),
    ]
    found = played(deployment(), arrival("a", at=2.0), events=events)

    assert label(found["a"], STRICT).held == {"asleep": 7.0}
    assert label(found["a"], STRICT).cause is Cause.UNKNOWN


def test_a_broken_server_fails_its_share_before_an_engine_sees_them():
    server = deployment()
    server.fail_share = 0.25
    found = played(server, *(arrival(f"r{number}", at=number * 0.01) for number in range(400)), until=2000.0)
    broken = [one for one in found.values() if one.end is End.BROKEN]

    assert len(broken) == pytest.approx(100, abs=35)
    assert {label(one, STRICT).cause for one in broken} == {Cause.SERVER_ERROR}
    assert {one.duration_s for one in broken} == {0.0}
    assert server.http.answers["POST", "/v1/chat/completions", "5xx"] == len(broken)
    edge = edge_record(broken[0], epoch=0.0, model="tiny")
    assert (edge.outcome, edge.status, edge.error) == (Outcome.ERROR, 500, "InternalServerError")


def test_a_dead_engine_can_answer_200_with_an_error():
    server = deployment()
    events = [Event(1.0, lambda one: one.crash(200))]
    found = played(server, arrival("a", output=9), arrival("b", at=5.0), events=events)

    for one in found.values():
        edge = edge_record(one, epoch=0.0, model="tiny")
        assert (edge.outcome, edge.status) == (Outcome.ERROR, 200)
        assert label(one, STRICT).cause is Cause.ENGINE_ERROR
    assert dict(server.http.answers) == {("POST", "/v1/chat/completions", "2xx"): 2}
    assert server.samples()[0].finished == 0


def test_a_new_process_is_ready_while_the_one_before_ends_what_it_began():
    server = deployment(load_s=50.0)
    server.advance(50.0)
    events = [Event(52.0, lambda one: one.swap(replace(one.limits, prefix_caching=False)))]
    found = played(server, arrival("a", at=50.0, output=9), arrival("b", at=53.0), events=events, until=58.0)
    assert (found["b"].end, found["b"].at) == (End.STOP, 55.0)
    assert not server.idle

    (late,) = server.advance(70.0)
    assert (late.arrival.request_id, late.end, late.at) == ("a", End.STOP, 59.0)
    assert server.idle
    assert server.started_at == 52.0
    assert not server.limits.prefix_caching
    assert server.samples()[0].finished == 1
    assert server.http.answers.total() == 1


def test_the_middleware_sees_the_server_s_time_and_no_time_limit():
    late = arrival("a", output=4, outside_s=2.0, leaves_after_s=4.5, times_out=True, client="web")
    whole = arrival("b", output=2, outside_s=2.0)
    found = played(deployment(), late, whole)

    left = middleware_record(found["a"], epoch=100.0)
    assert (left.outcome, left.status, left.duration_s, left.ttft_s) == (Outcome.ABORT, 200, 2.5, 1.0)
    assert (left.ts, left.client, left.model, left.completion_tokens) == (104.5, "web", None, None)
    ended = middleware_record(found["b"], epoch=100.0)
    assert (ended.outcome, ended.duration_s, ended.completion_tokens) == (Outcome.OK, 2.0, 2)
    assert edge_record(found["a"], epoch=100.0, model="tiny").outcome is Outcome.TIMEOUT


def test_who_left_before_the_server_heard_of_it_took_none_of_its_time():
    found = played(deployment(), arrival("a", outside_s=5.0, leaves_after_s=2.0))

    assert middleware_record(found["a"], epoch=0.0).duration_s == 0.0
