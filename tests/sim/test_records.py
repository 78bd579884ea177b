"""What a run leaves behind, read back by the product's own reader."""

from __future__ import annotations

import json

import pytest

from support.sims import KEY, arrival, deployment, engine, run
from vllm_observe.model import EdgeRecord, EngineRecord, EngineSample, Limits, Outcome
from vllm_observe.records.format1 import decode
from vllm_observe.sim.play import play
from vllm_observe.sim.records import edge_record, engine_record, line, records, sample_at

EPOCH = 1000.0


def told(ended):
    return [decode(line(record).rstrip(b"\n")) for record in records(ended, epoch=EPOCH, model="tiny")]


def test_a_finished_request_is_told_by_both_sides():
    ended = run(
        engine(max_num_seqs=1),
        arrival("a", output=3),
        arrival("b", output=2, max_tokens=2, session_id="s", profile="assistant", client="c"),
    )["b"]
    inside, outside = told(ended)

    assert inside == EngineRecord(
        ts=1005.0,
        request_id="chatcmpl-b",
        model="tiny",
        engine="0",
        finish_reason="length",
        e2e_s=5.0,
        queue_s=3.0,
        prefill_s=1.0,
        decode_s=1.0,
        tpot_s=1.0,
        prompt_tokens=8,
        completion_tokens=2,
        cached_tokens=0,
        preemptions=0,
        max_tokens=2,
        state=inside.state,
    )
    assert (inside.state.running, inside.state.waiting) == (0, 0)
    assert outside == EdgeRecord(
        ts=1005.0,
        request_id="b",
        outcome=Outcome.OK,
        session_id="s",
        profile="assistant",
        client="c",
        model="tiny",
        path="/v1/chat/completions",
        stream=True,
        status=200,
        duration_s=5.0,
        ttft_s=4.0,
        prompt_tokens=8,
        completion_tokens=2,
        cached_tokens=0,
        max_tokens=2,
    )


def test_completions_have_ids_of_their_own_and_an_answer_at_once_has_no_first_token():
    inside, outside = told(run(engine(), arrival("a", path="/v1/completions", stream=False))["a"])

    assert inside.request_id == "cmpl-a-0"
    assert (outside.ttft_s, outside.stream) == (None, False)


def test_the_client_waits_for_what_passes_outside_the_engine_too():
    server = deployment()
    (ended,) = play(server, [arrival("a", outside_s=4.0)], until=50.0, sample_every=100.0)
    inside, outside = told(ended)

    assert (outside.duration_s, outside.ttft_s) == (6.0, 5.0)
    assert (inside.e2e_s, inside.queue_s) == (2.0, 0.0)


def test_of_a_client_that_left_only_the_edge_tells():
    (outside,) = told(run(engine(), arrival("a", output=50, leaves_after_s=2.5))["a"])

    assert (outside.outcome, outside.status, outside.duration_s) == (Outcome.ABORT, 200, 2.5)
    assert (outside.completion_tokens, outside.ttft_s) == (2, 1.0)


def test_a_client_that_left_before_any_token_saw_no_status():
    (outside,) = told(run(engine(), arrival("a", leaves_after_s=0.5))["a"])

    assert (outside.outcome, outside.status, outside.ttft_s) == (Outcome.ABORT, None, None)


@pytest.mark.parametrize(
    ("values", "status", "outcome"),
    [
        ({"prompt": 100}, 400, Outcome.ERROR),
        ({"at": 50.0}, 500, Outcome.ERROR),
        ({"at": 1.0}, 503, Outcome.REJECTED),
    ],
)
def test_what_is_not_served_has_its_status(values, status, outcome):
    one = engine(ready_at=10.0)
    one.advance(values.get("at", 20.0))
    if values.get("at") == 50.0:
        one.crash()
    one.submit(arrival("a", **values))
    (ended,) = one.advance(60.0)

    assert engine_record(ended, epoch=EPOCH) is None
    found = edge_record(ended, epoch=EPOCH, model="tiny")
    assert (found.status, found.outcome) == (status, outcome)


def test_samples_and_limits_are_lines_too():
    server = deployment(max_num_seqs=3)
    server.submit(arrival("a", output=9))
    server.advance(2.5)
    (sample,) = [sample_at(one, epoch=EPOCH) for one in server.samples()]

    found = decode(line(sample).rstrip(b"\n"))
    assert found == sample
    assert isinstance(found, EngineSample)
    assert (found.at, found.key, found.running, found.generation_tokens) == (1002.5, KEY, 1, 2)
    limits = decode(line(server.engine_limits()).rstrip(b"\n"))
    assert isinstance(limits, Limits)
    assert (limits.max_num_seqs, limits.max_model_len, limits.block_size) == (3, 64, 4)


def test_nothing_unknown_is_written():
    lines = [line(record) for record in records(run(engine(), arrival("a"))["a"], epoch=EPOCH, model="tiny")]

    assert all(None not in json.loads(one).values() for one in lines)
    assert [json.loads(one)["kind"] for one in lines] == ["engine", "edge"]
