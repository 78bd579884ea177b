"""What most scenarios share: servers, the people that use them, and the hour in which it all happens."""

from __future__ import annotations

from dataclasses import replace

from vllm_observe.sim.cost import H100_70B
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.workloads import (
    ASSISTANT,
    CODER,
    SUMMARIZER,
    Manners,
    Profile,
    Rate,
    Sessions,
    Spread,
    Workload,
)
from vllm_observe.sim.scheduler import EngineLimits

__all__ = [
    "CALM",
    "END",
    "ERRORS",
    "JOB",
    "NARROW",
    "PEOPLE",
    "ROOMY",
    "SECONDS",
    "START",
    "TTFT",
    "USUAL",
    "WRITER",
    "people",
]

#: Half an hour in which all is well, twenty minutes of trouble, ten in which it passes.
START, END, SECONDS = 1800.0, 3000.0, 3600.0

#: People's own noise: one in a hundred leaves, one in a thousand pastes a whole book.
CALM = Manners(
    timeout_s=120.0,
    retries=1,
    backoff_s=2.0,
    leaving=0.01,
    patience=Spread(median=6.0, sigma=0.7, least=0.5, most=60.0),
    oversized=0.001,
)


def people(times: float = 1.0, *, manners: Manners = CALM) -> Workload:
    """Return an office at work: about 2.7 requests a second, 16 of them running at a time.

    Args:
        times: so many such offices.
        manners: how they wait.
    """
    uses = (("chat-app", ASSISTANT, 0.5), ("editor", CODER, 0.1), ("reports", SUMMARIZER, 0.1))
    return tuple(
        Sessions(
            name=f"{client}-user",
            client=client,
            profile=profile,
            rate=Rate(per_s=times * per_s),
            manners=manners,
        )
        for client, profile, per_s in uses
    )


PEOPLE = people()

#: Few slots and plenty of blocks; plenty of slots and blocks for a quarter of them; plenty of both.
NARROW = EngineLimits(max_num_seqs=64, num_gpu_blocks=16_000)
ROOMY = EngineLimits(max_num_seqs=256, num_gpu_blocks=24_000)

#: One of the many requests of a job that works a list off.
JOB = Profile(
    name="classifier",
    system_tokens=300,
    context=Spread(median=400, sigma=0.5, most=2000),
    question=Spread(median=20),
    output=Spread(median=250, sigma=0.4, most=800),
    max_tokens=1024,
    turns=Spread(median=1),
    think=Spread(median=1),
    stream=False,
)
#: Answers that grow far longer than their questions.
WRITER = replace(
    JOB,
    name="writer",
    output=Spread(median=1500, sigma=0.3, most=3000),
    max_tokens=4096,
)

#: An hour in which nothing happens.
USUAL = Scenario(
    name="steady",
    summary="An office at work.",
    shows="A quarter of the slots in use, nobody waits, one client in a hundred leaves.",
    limits=NARROW,
    cost=H100_70B,
    workload=PEOPLE,
    seconds=SECONDS,
)

#: Alerts that follow from late first tokens, and from errors.
TTFT = ("VLLMTimeToFirstTokenHigh", "VLLMTimeToFirstTokenSurge", "VLLMQueueTimeHigh")
ERRORS = ("VLLMRequestErrorsHigh",)
