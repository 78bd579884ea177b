"""Any load on any small engine: nothing is lost, nothing is counted twice, no limit is passed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.sims import arrival, deployment, limits
from support.watched import Watched
from vllm_observe.model import EngineKey
from vllm_observe.sim.cost import TINY_CPU, Cost, Pace
from vllm_observe.sim.engine import Engine
from vllm_observe.sim.play import Event, Seen, play
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.requests import Ended

STEPS = Cost(overhead=0.5, per_prompt_token=0.01, per_decode=0.05, per_context_token=0.001, jitter=0.3)


@st.composite
def loads(draw, **fixed):
    """Requests with shared beginnings, some deferred, some whose client leaves."""
    found, at = [], 0.0
    for number in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0.0, 0.1, 0.5, 3.0]))
        shared = Segment(f"system {draw(st.integers(0, 2))}", draw(st.integers(0, 20)))
        values = {
            "segments": (shared, Segment(f"question {number}", draw(st.integers(1, 20)))),
            "output": draw(st.integers(1, 24)),
            "max_tokens": draw(st.none() | st.integers(1, 24)),
            "priority": draw(st.integers(0, 2)),
            "deferred_s": draw(st.sampled_from([0.0, 0.0, 0.0, 2.5])),
            "leaves_after_s": draw(st.sampled_from([float("inf"), float("inf"), 0.0, 1.3, 6.0])),
        }
        found.append(arrival(f"r{number}", at=at, **{**values, **fixed}))
    return found


engines = st.builds(
    limits,
    max_num_seqs=st.integers(1, 6),
    max_num_batched_tokens=st.sampled_from([8, 16, 64]),
    num_gpu_blocks=st.sampled_from([16, 20, 40]),
    prefix_caching=st.booleans(),
    priority_scheduling=st.booleans(),
)


def watched(limits):
    one = Engine(key=EngineKey("tiny", "0"), limits=limits, pace=Pace(cost=STEPS, seed=1))
    one.scheduler = Watched(limits)
    return one


def run(one, arrivals):
    ended = []
    for coming in arrivals:
        ended += one.advance(coming.at)
        one.submit(coming)
    return ended + one.advance(1e6)


@given(engines, loads())
def test_every_request_ends_once_and_no_token_or_block_is_lost(limits, arrivals):
    one = watched(limits)
    ended = run(one, arrivals)

    assert sorted(done.arrival.request_id for done in ended) == sorted(each.request_id for each in arrivals)
    assert [done.at for done in ended] == sorted(done.at for done in ended)
    assert (len(one.scheduler.running), len(one.scheduler.waiting), one.scheduler.waiting.deferred) == (
        0,
        0,
        0,
    )
    assert one.scheduler.pool.used == 0
    finished = [done for done in ended if done.finished]
    assert all(done.output_tokens == done.arrival.goal for done in finished)
    tally = one.tally
    assert tally.finished.total() == tally.e2e.count == len(finished)
    assert tally.generation_tokens == sum(done.output_tokens for done in ended)
    assert tally.generation_tokens == tally.ttft.count + tally.itl.count
    answered = [done for done in ended if done.first_token_at is not None]
    assert tally.ttft.count == len(answered)
    assert tally.prompt_tokens == sum(done.prompt_tokens for done in answered)
    assert tally.cached_tokens == sum(done.cached_tokens for done in answered)
    assert tally.preemptions >= sum(done.preemptions for done in finished)


@given(engines, loads())
def test_the_phases_add_up_and_what_held_a_request_is_its_queue(limits, arrivals):
    for done in run(watched(limits), arrivals):
        if done.finished:
            assert done.queue_s + done.prefill_s + done.decode_s == pytest.approx(done.e2e_s)
            assert min(done.queue_s, done.prefill_s, done.decode_s, done.lost_s) >= 0
            assert sum(done.held.values()) == pytest.approx(done.queue_s, abs=1e-9)
            assert done.lost_s <= done.prefill_s + done.decode_s + 1e-9
            assert done.cached_tokens < done.prompt_tokens


@given(engines, loads(deferred_s=0.0, priority=0))
def test_first_come_is_first_served(limits, arrivals):
    ended = run(watched(limits), arrivals)
    order = {each.request_id: place for place, each in enumerate(arrivals)}

    served = [done for done in ended if done.scheduled_at is not None]
    served.sort(key=lambda done: order[done.arrival.request_id])
    assert [done.scheduled_at for done in served] == sorted(done.scheduled_at for done in served)


@given(loads(), st.integers(0, 5))
def test_the_same_seed_gives_the_same_run(arrivals, seed):
    def once():
        server = deployment(cost=TINY_CPU, engines=2, seed=seed, num_gpu_blocks=16)
        events = [Event(4.0, lambda one: one.slow_down(3.0)), Event(9.0, lambda one: one.restart())]
        return [repr(seen) for seen in play(server, arrivals, until=60.0, events=events, sample_every=1.0)]

    assert once() == once()


@given(loads(), st.integers(1, 3), st.lists(st.floats(0.0, 20.0), max_size=3))
def test_restarts_and_ranks_lose_no_request(arrivals, ranks, restarts):
    server = deployment(engines=ranks, load_s=1.0)
    events = [Event(at, lambda one: one.restart()) for at in sorted(restarts)]
    told = list(play(server, arrivals, until=1e4, events=events, sample_every=100.0))
    ended = [one for one in told if isinstance(one, Ended)]

    assert Counter(one.arrival.request_id for one in ended) == Counter(one.request_id for one in arrivals)
    assert [one.at for one in told] == sorted(one.at for one in told)
    assert all(len(one.samples) <= ranks for one in told if isinstance(one, Seen))


@given(loads())
def test_it_makes_no_difference_how_often_one_looks(arrivals):
    def ends(sample_every):
        told = play(deployment(cost=STEPS, seed=3), arrivals, until=300.0, sample_every=sample_every)
        return [one for one in told if isinstance(one, Ended)]

    # No look falls on an arrival: which of two things at the same moment comes first is a matter of order.
    assert ends(1.7182818) == ends(1e3)
