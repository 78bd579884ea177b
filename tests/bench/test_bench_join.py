"""Joining requests of two records each and judging them, beside reading their lines with the standard library.

Run ``pytest tests/bench/test_bench_join.py``: the numbers in brackets are ratios within the group,
measured in one run.
"""

from __future__ import annotations

import json
from functools import partial

import pytest

from support.joins import Desk, T, edge, engine, sample
from vllm_observe.engine.history import History
from vllm_observe.join.causes import Classifier
from vllm_observe.join.usual import Usual
from vllm_observe.model import Limits, ServiceClass
from vllm_observe.thresholds import TARGETS

REQUESTS = 5_000
ID = "3f0c9a52-7d1e-4b8a-9c55-{:012x}"
EDGE_LINE = (
    '{"ts":1790000000.25,"request_id":"3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f","session_id":"sess-17",'
    '"profile":"assistant","model":"tiny","path":"/v1/chat/completions","stream":true,"status":200,'
    '"outcome":"ok","duration_s":1.9,"ttft_s":0.2,"prompt_tokens":418,"completion_tokens":100}'
)
ENGINE_LINE = (
    '{"kind":"engine","ts":1790000000.25,"request_id":"chatcmpl-3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f",'
    '"model":"tiny","engine":"0","finish_reason":"stop","e2e_s":1.8,"queue_s":0.1,"prefill_s":0.1,'
    '"decode_s":1.5,"prompt_tokens":418,"completion_tokens":100,"cached_tokens":384,"preemptions":0}'
)


class Known:
    """The product's own history of the engine, as its tracker gives it."""

    def __init__(self, history):
        self.samples_between = history.between
        self.sample_before = partial(history.before, max_age=15.0)


def records():
    for i in range(REQUESTS):
        name = ID.format(i)
        yield edge(
            name,
            start=i / 100,
            took=1.9,
            ttft_s=0.2,
            prompt_tokens=418,
            completion_tokens=100,
            session_id="s",
            model="tiny",
        )
        yield engine(
            f"chatcmpl-{name}",
            start=i / 100,
            took=1.8,
            queue_s=0.1,
            prefill_s=0.1,
            decode_s=1.5,
            completion_tokens=100,
            cached_tokens=384,
            model="tiny",
            engine="0",
        )


@pytest.mark.benchmark(group="5000 requests")
def test_the_standard_library_reads_their_lines(benchmark):
    benchmark.pedantic(
        lambda: [(json.loads(EDGE_LINE), json.loads(ENGINE_LINE)) for _ in range(REQUESTS)], rounds=5
    )


@pytest.mark.benchmark(group="5000 requests")
def test_join_and_name_the_cause(benchmark):
    parts = list(records())
    history = History(keep=900.0, max_samples=20_000)
    for scrape in range(-60, 12):
        history.scraped(T + 5.0 * scrape, [sample(5.0 * scrape, running=8, waiting=3)])
    classify = Classifier(
        targets=TARGETS[ServiceClass.INTERACTIVE],
        limits_for=lambda _: Limits(max_num_seqs=8),
        usual=lambda _: Usual(duration_s=2.0),
    )

    def join():
        desk = Desk(classify=classify, max_pending=2 * REQUESTS, history=Known(history))
        assert len(desk.join(*parts)) == REQUESTS

    benchmark.pedantic(join, rounds=5, warmup_rounds=1)
