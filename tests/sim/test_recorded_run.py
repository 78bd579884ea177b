"""The simulator beside a real vLLM 0.32.0 on the same arrivals: 8 slots, 20 blocks of 128 tokens.

tests/data/join/vllm-0.32.0.jsonl tells when each of 80 requests came, its tokens, and which clients
left. Every prompt was the beginning of one text, of one of three lengths. The first block of a real
cache is never used. A small CPU's speed changed by half meanwhile, so times agree roughly at best.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.sims import run
from vllm_observe.model import EngineKey
from vllm_observe.sim.cost import TINY_CPU, Pace
from vllm_observe.sim.engine import Engine
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.requests import Arrival
from vllm_observe.sim.scheduler import EngineLimits

RECORDS = Path(__file__).parents[1] / "data" / "join" / "vllm-0.32.0.jsonl"
LEFT_TOKENS = {"prompt": 418, "output": 400}  # of those that left, the records do not tell


@pytest.fixture(scope="module")
def recorded():
    found = [json.loads(line) for line in RECORDS.read_bytes().splitlines()]
    inside = {one["request_id"].removeprefix("chatcmpl-"): one for one in found if one["kind"] == "engine"}
    left = {one["request_id"]: one for one in found if one["kind"] == "edge" and one["outcome"] == "abort"}
    return inside, left


@pytest.fixture(scope="module")
def simulated(recorded):
    inside, left = recorded
    came = {name: one["ts"] - one["e2e_s"] for name, one in inside.items()}
    came |= {name: one["ts"] - one["duration_s"] for name, one in left.items()}
    start = min(came.values())
    arrivals = [
        Arrival(
            at=at - start,
            request_id=name,
            prompt=(
                Segment(
                    "the text", inside[name]["prompt_tokens"] if name in inside else LEFT_TOKENS["prompt"]
                ),
            ),
            output_tokens=inside[name]["completion_tokens"] if name in inside else LEFT_TOKENS["output"],
            leaves_after_s=left[name]["duration_s"] if name in left else float("inf"),
        )
        for name, at in came.items()
    ]
    limits = EngineLimits(
        max_num_seqs=8, max_num_batched_tokens=2048, max_model_len=2048, num_gpu_blocks=19, block_size=128
    )
    engine = Engine(key=EngineKey("tiny", "0"), limits=limits, pace=Pace(cost=TINY_CPU, seed=1))
    return engine, run(engine, *arrivals)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("measure", "within"),
    [
        ("queue_s", 0.2),
        ("prefill_s", 0.25),
        ("decode_s", 0.25),
        ("e2e_s", 0.2),
        ("preemptions", 0.5),
        ("cached_tokens", 0.1),
    ],
)
def test_a_request_s_means_are_near_the_real_ones(recorded, simulated, measure, within):
    inside, (_, ended) = recorded[0], simulated

    real = mean(one[measure] for one in inside.values())
    assert mean(getattr(ended[name], measure) for name in inside) == pytest.approx(real, rel=within)


@pytest.mark.parametrize("measure", ["running", "waiting", "kv_usage"])
def test_the_engine_is_as_full_at_the_ends_of_requests_as_the_real_one(recorded, simulated, measure):
    inside, (_, ended) = recorded[0], simulated

    real = mean(one["state"][measure] for one in inside.values())
    assert mean(getattr(ended[name], measure) for name in inside) == pytest.approx(real, rel=0.1)


def test_the_same_requests_end_and_leave(recorded, simulated):
    inside, left = recorded
    engine, ended = simulated

    assert {name for name, one in ended.items() if one.finished} == inside.keys()
    assert {name for name, one in ended.items() if not one.finished} == left.keys()
    assert max(one.running for one in ended.values()) == 7  # told after a step's end, so never all 8
    assert engine.tally.preemptions > 30
