"""The causes that the product names, against those that the simulator knows.

The bounds are what is reached now; a change of either side that lowers them shows here.
"""

from __future__ import annotations

import pytest

from support.judged import chats, judge, share_right, table
from vllm_observe.model import Cause
from vllm_observe.sim.cost import H100_70B
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.play import Event
from vllm_observe.sim.scheduler import EngineLimits


def server(**limits):
    return Deployment(model="llama", limits=EngineLimits(**limits), cost=H100_70B, load_s=20.0, now=-30.0)


def burst(rate):
    return lambda at: rate if 60 < at < 150 else 3.0


@pytest.mark.slow
def test_a_burst_on_few_slots_is_named_so():
    judged = judge(
        server(max_num_seqs=32, num_gpu_blocks=20_000), chats(burst(12.0), seconds=300, seed=1), until=400
    )

    waited = [one for one in judged if one.truth.slow]
    assert len(waited) > 1000
    assert {one.truth.cause for one in waited} == {Cause.QUEUE_SLOTS}
    assert share_right(judged) >= 0.99, table(judged)


@pytest.mark.slow
def test_a_burst_on_few_blocks_is_named_so():
    judged = judge(
        server(max_num_seqs=256, num_gpu_blocks=2048), chats(burst(8.0), seconds=300, seed=2), until=500
    )

    waited = [one for one in judged if one.truth.slow]
    assert len(waited) > 500
    assert {one.truth.cause for one in waited} <= {Cause.QUEUE_KV, Cause.PREEMPTED}
    assert share_right(judged) >= 0.99, table(judged)


@pytest.mark.slow
def test_where_slots_and_blocks_are_missing_in_turn_one_of_them_is_named():
    judged = judge(
        server(max_num_seqs=32, num_gpu_blocks=2048), chats(burst(12.0), seconds=300, seed=3), until=600
    )

    assert share_right(judged) >= 0.95, table(judged)


@pytest.mark.slow
def test_a_slow_gpu_is_told_from_long_answers():
    judged = judge(
        server(num_gpu_blocks=20_000),
        chats(lambda _: 3.0, seconds=200, seed=4),
        until=300,
        events=[Event(100.0, lambda one: one.slow_down(5.0))],
    )

    slow = [one for one in judged if one.truth.slow]
    assert len(slow) > 100
    assert {one.truth.cause for one in slow} == {Cause.DECODE_SLOW}
    assert share_right(judged) >= 0.85, table(judged)


def test_clients_that_leave_and_a_server_that_restarts_are_named_so():
    judged = judge(
        server(num_gpu_blocks=20_000),
        chats(lambda _: 3.0, seconds=120, seed=5, leaves_after_s=12.0),
        until=200,
        events=[Event(60.0, lambda one: one.restart())],
    )

    found = table(judged)
    assert found["client_disconnected", "client_disconnected"] > 10
    assert found["rejected", "rejected"] > 30
    assert found["engine_error", "engine_error"] > 0
    assert all(true == named for true, named in found)


def test_nothing_is_slow_on_a_quiet_day():
    judged = judge(server(num_gpu_blocks=20_000), chats(lambda _: 2.0, seconds=120, seed=6), until=200)

    assert len(judged) > 150
    assert not table(judged)
    # What is named all the same is slow beside what is usual, and because it has more to say.
    assert {one.named for one in judged} <= {None, Cause.DECODE_LONG}
