"""The simulator beside a real vLLM on the same arrivals: one table for each load, with its bounds.

How fast the real one computes is the machine's affair and no matter of the comparison. So a warm-up of
the real server, alone and with all slots in use, gives the costs of a step, and the mean time between
two tokens under the load says by how much the machine was slower then. What is compared follows from
who is admitted and when.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from support.vllm import VllmServer
from vllm_observe.sim.cost import Cost
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.play import Event, Seen, play
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.requests import Arrival
from vllm_observe.sim.scheduler import EngineLimits

SLOTS = 8
CONTEXT = 2048
#: What vLLM computes in a step at most, on a CPU with this context.
BATCHED_TOKENS = 2048
#: Seconds between two looks at both.
LOOK_S = 0.25


class Planned(NamedTuple):
    """A request to send: ``at`` seconds after the first, a character of its prompt a token."""

    at: float
    prompt: int
    output: int


class Load(NamedTuple):
    """What is sent, to a server with so many blocks, or as many as it likes; and how near both must be.

    A bound is a share of the real value, and an amount below which no difference matters.
    """

    name: str
    plan: Sequence[Planned]
    blocks: int | None
    bounds: dict[str, tuple[float, float]]


def plan(
    seed: int, count: int, *, per_s: float, prompts: Sequence[int], outputs: Sequence[int]
) -> list[Planned]:
    """Requests that come by chance, the same for the same seed."""
    chance, at, found = Random(seed), 0.0, []
    for _ in range(count):
        found.append(Planned(at, chance.choice(prompts), chance.choice(outputs)))
        at += chance.expovariate(per_s)
    return found


LOADS = [
    Load(
        "more than eight slots can take",
        plan(1, 90, per_s=16.0, prompts=(60, 300, 1200), outputs=(40, 120, 240)),
        None,
        {
            "running": (0.1, 0.3),
            "waiting": (0.2, 1.0),
            "preemptions": (0.0, 0.0),
            "queue mean, s": (0.2, 0.05),
            "TTFT mean, s": (0.2, 0.05),
        },
    ),
    Load(
        "more than twenty blocks can hold",
        plan(2, 60, per_s=25.0, prompts=(200, 420), outputs=(150, 300)),
        20,
        {
            "running": (0.15, 0.3),
            "waiting": (0.25, 1.0),
            "preemptions": (0.5, 3.0),
            "queue mean, s": (0.25, 0.1),
            "TTFT mean, s": (0.25, 0.1),
        },
    ),
]


# --- The real one


class Page:
    """A page of /metrics, as Prometheus's reference parser reads it."""

    def __init__(self, server: VllmServer) -> None:
        text = requests.get(f"{server.url}/metrics", timeout=30).text
        self._samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]

    def total(self, name: str) -> float:
        """The sum of a metric's samples."""
        return sum(sample.value for sample in self._samples if sample.name == name)

    def label(self, name: str, label: str) -> str:
        """A label of a metric that has one sample."""
        return next(sample.labels[label] for sample in self._samples if sample.name == name)


def mean_between(before: Page, after: Page, histogram: str) -> float:
    """The mean of what a histogram observed between two pages."""
    count = after.total(f"{histogram}_count") - before.total(f"{histogram}_count")
    return (after.total(f"{histogram}_sum") - before.total(f"{histogram}_sum")) / count


def send(server: VllmServer, planned: Sequence[Planned], name: str) -> list[Arrival]:
    """Send requests at their times; answer when each was sent, in seconds after the first."""
    start = time.monotonic() + 0.2
    sent: list[float] = [0.0] * len(planned)

    def ask(number: int) -> None:
        one = planned[number]
        time.sleep(max(0.0, start + one.at - time.monotonic()))
        sent[number] = time.monotonic() - start
        head = f"{name} {number} "
        body = {
            "model": "tiny",
            "prompt": head + "x" * (one.prompt - len(head)),
            "max_tokens": one.output,
            "ignore_eos": True,
        }
        requests.post(f"{server.url}/v1/completions", json=body, timeout=300).raise_for_status()

    with ThreadPoolExecutor(len(planned)) as pool:
        list(pool.map(ask, range(len(planned))))
    return [
        Arrival(
            at=at,
            request_id=f"{name}-{number}",
            prompt=(Segment(f"{name} {number}", one.prompt),),
            output_tokens=one.output,
            stream=False,
        )
        for number, (one, at) in enumerate(zip(planned, sent, strict=True))
    ]


def warm_up(server: VllmServer) -> Cost:
    """What a step of this server costs, from requests alone and in a full batch without a queue."""

    def spent(histogram: str, planned: Sequence[Planned], name: str) -> float:
        before = Page(server)
        send(server, planned, name)
        return mean_between(before, Page(server), histogram)

    itl, prefill = "vllm:inter_token_latency_seconds", "vllm:request_prefill_time_seconds"
    send(server, [Planned(0.0, 100, 20)] * SLOTS, "first")  # what is compiled at the first step
    alone = spent(itl, [Planned(0.0, 100, 200)], "alone")
    full = spent(itl, [Planned(0.0, 100, 200)] * SLOTS, "full")
    short = spent(prefill, [Planned(0.3 * number, 100, 1) for number in range(5)], "short")
    long = spent(prefill, [Planned(0.5 * number, 1900, 1) for number in range(5)], "long")
    per_decode = max(0.0, (full - alone) / (SLOTS - 1))
    return Cost(
        overhead=alone - per_decode,
        per_prompt_token=max(0.0, (long - short) / 1800),
        per_decode=per_decode,
        per_context_token=0.0,
    )


class Run(NamedTuple):
    """What came of a load, in the real server or the simulated one."""

    measures: dict[str, float]
    itl: float


class Look(NamedTuple):
    """What the gauges said at a time."""

    at: float
    running: float
    waiting: float


def real_run(server: VllmServer, load: Load) -> tuple[Run, list[Arrival], float]:
    """Send a load; answer what came of it, when each request was sent, and how long it took."""
    before, over = Page(server), threading.Event()
    looks: list[Look] = []

    def look() -> None:
        while not over.wait(LOOK_S):
            page = Page(server)
            running, waiting = (page.total(f"vllm:num_requests_{state}") for state in ("running", "waiting"))
            looks.append(Look(time.monotonic(), running, waiting))

    looking = threading.Thread(target=look)
    began = time.monotonic()
    looking.start()
    arrivals = send(server, load.plan, load.name)
    lasted = time.monotonic() - began
    over.set()
    looking.join()
    after = Page(server)
    measures = {
        **over_time(looks),
        "preemptions": after.total("vllm:num_preemptions_total") - before.total("vllm:num_preemptions_total"),
        "queue mean, s": mean_between(before, after, "vllm:request_queue_time_seconds"),
        "TTFT mean, s": mean_between(before, after, "vllm:time_to_first_token_seconds"),
    }
    return Run(measures, mean_between(before, after, "vllm:inter_token_latency_seconds")), arrivals, lasted


def over_time(looks: Sequence[Look]) -> dict[str, float]:
    """The means of what runs and waits while anything does, each look counted until the next.

    A busy vLLM answers a scrape late, so that looks are not the same time apart.
    """
    pairs = [(one, following.at - one.at) for one, following in pairwise(looks) if one.running or one.waiting]
    whole = sum(seconds for _, seconds in pairs)
    return {
        "running": sum(one.running * seconds for one, seconds in pairs) / whole,
        "waiting": sum(one.waiting * seconds for one, seconds in pairs) / whole,
    }


# --- The simulated one


def simulated_run(
    limits: EngineLimits, cost: Cost, slowdown: float, arrivals: list[Arrival], lasted: float
) -> Run:
    """Give the same arrivals to a simulated server, and look at it as often."""
    server = Deployment(model="tiny", limits=limits, cost=cost)
    looks: list[Look] = []
    until = lasted * 3
    told = play(
        server,
        sorted(arrivals, key=lambda one: one.at),
        until=until,
        events=[Event(0.0, lambda one: one.slow_down(slowdown))],
        sample_every=LOOK_S,
    )
    for one in told:
        if isinstance(one, Seen):
            (sample,) = one.samples
            looks.append(Look(one.at, sample.running or 0.0, sample.waiting or 0.0))
    assert server.idle
    tally = server.engines[0].tally
    measures = {
        **over_time(looks),
        "preemptions": float(tally.preemptions),
        "queue mean, s": tally.queue_time.sum / tally.queue_time.count,
        "TTFT mean, s": tally.ttft.sum / tally.ttft.count,
    }
    return Run(measures, tally.itl.sum / tally.itl.count)


class Compared(NamedTuple):
    """A load in both."""

    load: Load
    real: Run
    simulated: Run

    def is_near(self, measure: str) -> bool:
        """Whether a measure keeps its bound."""
        real, made = self.real.measures[measure], self.simulated.measures[measure]
        share, amount = self.load.bounds[measure]
        return abs(made - real) <= max(share * real, amount)

    def table(self) -> str:
        """All measures, both values, and the bound."""
        lines = [f"\n{self.load.name}", f"{'':16}{'vLLM':>10}{'simulated':>12}{'may differ by':>16}"]
        for measure, (share, amount) in self.load.bounds.items():
            real, made = self.real.measures[measure], self.simulated.measures[measure]
            bound = max(share * real, amount)
            kept = "" if self.is_near(measure) else "  too far"
            lines.append(f"{measure:16}{real:10.3f}{made:12.3f}{bound:16.3f}{kept}")
        return "\n".join(lines)


def compared(load: Load, release: str, folder: Path, vllm: VllmServer) -> Compared:
    """Send a load to a real server and to a simulated one."""
    if load.blocks is None:
        return compared_with(vllm, load)
    options = [f"--max-num-seqs={SLOTS}", f"--num-gpu-blocks-override={load.blocks}"]
    server = VllmServer(release, log=folder / "vllm-few-blocks.log", options=options)
    try:
        server.start()
        return compared_with(server, load)
    finally:
        server.stop()


def compared_with(server: VllmServer, load: Load) -> Compared:
    """Send a load to this real server and to a simulated one with its blocks."""
    cost = warm_up(server)
    real, arrivals, lasted = real_run(server, load)
    page = Page(server)
    limits = EngineLimits(
        max_num_seqs=SLOTS,
        max_num_batched_tokens=BATCHED_TOKENS,
        max_model_len=CONTEXT,
        num_gpu_blocks=int(page.label("vllm:cache_config_info", "num_gpu_blocks")) - 1,  # one is never used
        block_size=int(page.label("vllm:cache_config_info", "block_size")),
    )
    slowdown = 1.0
    for _ in range(3):  # until a token takes as long as it did under the load
        made = simulated_run(limits, cost, slowdown, arrivals, lasted)
        slowdown *= real.itl / made.itl
    return Compared(load, real, simulated_run(limits, cost, slowdown, arrivals, lasted))


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load.name)
def test_the_simulator_schedules_as_vllm_does(
    load: Load, release: str, folder: Path, vllm: VllmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(load, release, folder, vllm)
    with capsys.disabled():
        print(found.table())  # noqa: T201  # so that a run that passes shows it too

    assert not [measure for measure in load.bounds if not found.is_near(measure)], found.table()
