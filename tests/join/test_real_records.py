"""A real vLLM 0.32.0 with 8 slots and few KV blocks, seen by its middleware and by its stat logger.

tests/data/join/vllm-0.32.0.jsonl holds both views of 80 requests as record format 1. The middleware
did not note the time of the end, so that is the engine's plus 2 ms. The load generator left every
23rd request after one second and streamed every second one.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from support.joins import KEY, Desk
from vllm_observe.join.causes import Classifier
from vllm_observe.model import Cause, EdgeRecord, EngineRecord, EngineSample, Limits, Parts
from vllm_observe.thresholds import QUEUE_SHARE, Targets

RECORDS = Path(__file__).parent.parent / "data" / "join" / "vllm-0.32.0.jsonl"
TYPES = {"edge": EdgeRecord, "engine": EngineRecord}


@pytest.fixture(scope="module")
def records():
    lines = RECORDS.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=TYPES[json.loads(line)["kind"]]) for line in lines]


@pytest.fixture(scope="module")
def samples(records):
    """The engine's state at each request's end, as its stat logger told it."""
    parts = [record for record in records if isinstance(record, EngineRecord)]
    return [
        EngineSample(
            at=part.ts,
            key=KEY,
            running=part.state.running,
            waiting=part.state.waiting,
            kv_usage=part.state.kv_usage,
        )
        for part in parts
    ]


def classifier(*, ttft):
    return Classifier(
        targets=Targets(ttft=ttft, tpot=0.1),
        limits_for=lambda _: Limits(max_num_seqs=8),
        usual=lambda _: None,
    )


def test_every_request_is_joined_once_and_those_that_left_have_no_engine_part(records):
    closed = Desk().join(*records)
    assert len(closed) == 80
    assert Counter(request.parts for request in closed) == {Parts.BOTH: 76, Parts.EDGE: 4}
    # vLLM's per-request statistics know nothing of a request whose client left.
    assert {request.request_id for request in closed if request.parts is Parts.EDGE} == {
        "req-user-5-5",
        "req-user-0-28",
        "req-user-2-51",
        "req-user-4-74",
    }
    assert {request.attempt for request in closed} == {1}


def test_the_phases_add_up_to_the_duration_within_a_twentieth(records):
    for request in Desk().join(*records):
        if request.parts is Parts.BOTH:
            whole = sum(getattr(request.phases, name) for name in ("outside", "queue", "prefill", "decode"))
            assert whole == pytest.approx(request.duration_s, rel=0.05)


def test_no_real_time_is_taken_for_one_that_cannot_be_true(records):
    told = [part for request in Desk().join(*records) for part in request.engines]
    assert sorted(told, key=repr) == sorted(
        (one for one in records if isinstance(one, EngineRecord)), key=repr
    )


def test_what_waited_for_kv_blocks_is_told_so(records, samples):
    closed = Desk(*samples, classify=classifier(ttft=1.0)).join(*records)
    # Never more than 8 ran, and fewer whenever others waited long: the cache was what they waited for.
    waited = [
        request
        for request in closed
        if request.engines
        and request.ttft_s > 1.0
        and request.phases.queue >= QUEUE_SHARE * request.ttft_s
        and request.edges[0].stream
    ]
    assert len(waited) >= 30
    assert {request.evidence.cause for request in waited} == {Cause.QUEUE_KV}


def test_without_the_engines_records_the_samples_still_tell(records, samples):
    edges = [record for record in records if isinstance(record, EdgeRecord)]
    closed = Desk(*samples, classify=classifier(ttft=1.0)).join(*edges)
    late = [one for one in closed if one.edges[0].stream and one.ttft_s and one.ttft_s > 1.0]
    causes = Counter(request.evidence.cause for request in late)
    assert set(causes) <= {Cause.QUEUE_KV, Cause.UNKNOWN, Cause.CLIENT_DISCONNECTED}
    assert causes[Cause.QUEUE_KV] > 0.8 * len(late)


def test_those_that_left_are_told_so(records, samples):
    closed = Desk(*samples, classify=classifier(ttft=1.0)).join(*records)
    left = [one for one in closed if one.parts is Parts.EDGE]
    assert {one.evidence.cause for one in left} == {Cause.CLIENT_DISCONNECTED}
