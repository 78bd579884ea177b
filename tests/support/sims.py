"""Simulated requests and servers by hand: steps of exactly one second, unless a test wants others."""

from __future__ import annotations

from vllm_observe.model import EngineKey
from vllm_observe.sim.cost import Cost, Pace
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.engine import Engine
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.requests import Arrival, Ended
from vllm_observe.sim.scheduler import EngineLimits

SECOND = Cost(overhead=1.0, per_prompt_token=0.0, per_decode=0.0, per_context_token=0.0)
KEY = EngineKey("tiny", "0")


def arrival(name: str, *, at: float = 0.0, prompt: int = 8, output: int = 2, **values) -> Arrival:
    """A request whose prompt nobody shares, unless it is given in segments."""
    segments = values.pop("segments", (Segment(f"prompt of {name}", prompt),))
    return Arrival(at=at, request_id=name, prompt=segments, output_tokens=output, **values)


def limits(**values) -> EngineLimits:
    """A small engine: 4 slots, 64 blocks of 4 tokens, 64 tokens a step."""
    small = {
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "max_model_len": 64,
        "num_gpu_blocks": 64,
        "block_size": 4,
    }
    return EngineLimits(**{**small, **values})


def engine(*, cost: Cost = SECOND, ready_at: float = 0.0, **values) -> Engine:
    """An engine with such limits."""
    return Engine(key=KEY, limits=limits(**values), pace=Pace(cost=cost), ready_at=ready_at)


def deployment(*, cost: Cost = SECOND, engines: int = 1, seed: int = 0, load_s: float = 0.0, **values):
    """A server of such engines."""
    return Deployment(
        model="tiny", limits=limits(**values), cost=cost, engines=engines, seed=seed, load_s=load_s
    )


def run(one: Engine, *arrivals: Arrival, until: float = 1000.0) -> dict[str, Ended]:
    """What becomes of requests, by their ids, in the order in which they end."""
    ended = []
    for coming in sorted(arrivals, key=lambda request: request.at):
        ended += one.advance(coming.at)
        one.submit(coming)
    ended += one.advance(until)
    return {request.arrival.request_id: request for request in ended}
