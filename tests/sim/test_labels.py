from __future__ import annotations

import json

import pytest

from support.sims import arrival, deployment, engine, run
from vllm_observe.model import Cause
from vllm_observe.sim.cost import Cost
from vllm_observe.sim.labels import Promise, label, label_line
from vllm_observe.sim.play import play

STRICT = Promise(ttft=1.5, tpot=1.5)
EASY = Promise(ttft=1000.0, tpot=1000.0)


def labels(one, *arrivals, promise=STRICT):
    return {name: label(ended, promise) for name, ended in run(one, *arrivals).items()}


def test_who_waited_for_a_slot():
    found = labels(engine(max_num_seqs=1), arrival("a", output=4), arrival("b"))

    assert (found["a"].slow, found["b"].slow) == (False, True)
    assert found["b"].cause is Cause.QUEUE_SLOTS
    assert found["b"].spent[Cause.QUEUE_SLOTS] == 4.0
    assert found["b"].also is None


def test_who_waited_for_blocks():
    one = engine(num_gpu_blocks=16, max_num_batched_tokens=100)
    found = labels(one, arrival("a", prompt=44, output=4), arrival("b", prompt=24))

    assert found["b"].cause is Cause.QUEUE_KV
    assert found["b"].held == {"kv": 4.0}


def test_who_waited_for_a_slot_that_would_have_had_no_blocks_waited_for_both():
    found = labels(
        engine(num_gpu_blocks=16, max_num_seqs=1), arrival("a", prompt=44, output=4), arrival("b", prompt=24)
    )

    assert (found["b"].cause, found["b"].also) == (Cause.QUEUE_KV, Cause.QUEUE_SLOTS)
    assert found["b"].agrees(Cause.QUEUE_SLOTS)
    assert not found["b"].agrees(Cause.DECODE_LONG)


def test_who_had_a_long_prompt():
    found = labels(engine(max_num_batched_tokens=16), arrival("a", prompt=40))

    assert found["a"].cause is Cause.PREFILL_LONG
    assert found["a"].spent[Cause.PREFILL_LONG] == 3.0


def test_who_waited_for_another_s_prompt():
    found = labels(engine(max_num_batched_tokens=16), arrival("a", prompt=40), arrival("b", prompt=8))

    assert found["b"].held == {"token_budget": 2.0}
    assert found["b"].cause is Cause.QUEUE_BUDGET


def test_a_queue_for_two_things_is_one_queue():
    # c waits 2 s for tokens of the steps that the prompt of a fills, 5 s for a slot, and decodes for 6.5 s.
    one = engine(max_num_seqs=2, max_num_batched_tokens=16)
    arrivals = (
        arrival("a", prompt=40, output=5),
        arrival("b", prompt=8, output=5),
        arrival("c", prompt=8, output=50, leaves_after_s=14.5, times_out=True),
    )
    found = labels(one, *arrivals)["c"]

    assert found.held == {"token_budget": 2.0, "slots": 5.0}
    assert found.spent[Cause.DECODE_LONG] == 6.0
    assert found.cause is Cause.QUEUE_SLOTS


def test_who_was_thrown_out():
    one = engine(num_gpu_blocks=16, prefix_caching=False)
    found = labels(one, arrival("a", prompt=32, output=3), arrival("b", prompt=32, output=3))

    assert (found["a"].slow, found["b"].slow) == (False, True)
    assert found["b"].cause is Cause.PREEMPTED
    assert found["b"].spent[Cause.PREEMPTED] == 3.0


def test_a_slow_gpu_makes_tokens_slow_and_a_long_answer_does_not():
    slow = engine()
    slow.pace.slowdown = 3.0
    found = labels(slow, arrival("a", output=10), promise=Promise(ttft=5.0, tpot=1.5))
    assert (found["a"].slow, found["a"].cause) == (True, Cause.DECODE_SLOW)
    assert (found["a"].spent[Cause.DECODE_LONG], found["a"].spent[Cause.DECODE_SLOW]) == (9.0, 18.0)

    found = labels(engine(), arrival("b", output=40))
    assert (found["b"].slow, found["b"].cause) == (False, Cause.DECODE_LONG)


def test_the_worse_of_two_broken_promises_is_explained():
    cost = Cost(overhead=1.0, per_prompt_token=1.0, per_decode=0.0, per_context_token=0.0)
    arrivals = arrival("a", prompt=9, output=2), arrival("b", at=0.5, prompt=30, output=1)
    assert labels(engine(cost=cost), *arrivals, promise=Promise(5.0, 1.0))["a"].cause is Cause.DECODE_SLOW
    assert labels(engine(cost=cost), *arrivals, promise=Promise(0.1, 20.0))["a"].cause is Cause.PREFILL_LONG


def test_what_passes_before_the_engine_hears_of_it_is_outside():
    server = deployment()
    (ended,) = play(server, [arrival("a", output=1, outside_s=5.0)], until=50.0, sample_every=100.0)

    found = label(ended, STRICT, epoch=100.0)
    assert (found.cause, found.started_at, found.ended_at) == (Cause.OUTSIDE_ENGINE, 100.0, 106.0)


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"leaves_after_s": 2.0}, Cause.CLIENT_DISCONNECTED),
        ({"prompt": 100}, Cause.CLIENT_ERROR),
        ({"at": 4.5}, Cause.ENGINE_ERROR),
    ],
)
def test_a_failure_is_named_before_any_slowness(values, cause):
    one = engine(max_num_seqs=1)
    one.advance(0.0)
    one.submit(arrival("before", output=50))
    one.advance(values.get("at", 0.0))
    one.submit(arrival("a", **{"output": 9, **values}))
    ended = one.advance(5.0)
    one.crash()
    ended += one.advance(6.0)

    found = {done.arrival.request_id: label(done, STRICT) for done in ended}
    assert (found["a"].failed, found["a"].cause) == (True, cause)
    assert found["before"].cause is Cause.ENGINE_ERROR


def test_an_engine_that_takes_nothing_rejects():
    found = labels(engine(ready_at=10.0), arrival("a", at=0.5))

    assert found["a"].cause is Cause.REJECTED


def test_a_label_is_a_line_of_json():
    found = labels(engine(), arrival("a"), promise=EASY)["a"]
    told = json.loads(label_line(found))

    assert told["request_id"] == "a"
    assert told["spent"] == {
        "outside_engine": 0.0,
        "engine_error": 0.0,
        "preempted": 0.0,
        "prefill_long": 1.0,
        "decode_long": 1.0,
        "decode_slow": 0.0,
    }
    assert told["held"] == {}
