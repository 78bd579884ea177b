"""Healthy days with all their noise: whatever fires here is a false alarm."""

from __future__ import annotations

from dataclasses import replace

from vllm_observe.model import ServiceClass
from vllm_observe.sim.scenarios.incidents import Deed, Incident
from vllm_observe.sim.scenarios.settings import CALM, JOB, PEOPLE, ROOMY, SECONDS, USUAL, people
from vllm_observe.sim.scenarios.workloads import Rate, Sessions, Spread, Workers

__all__ = ["HEALTHY"]

_DAY = replace(
    USUAL,
    name="diurnal",
    summary="A day from night to night: hardly anybody at first, three times the mean at noon.",
    shows="Slots and KV usage follow the sun; whatever is compared with an hour ago has changed.",
    workload=tuple(
        replace(source, rate=replace(source.rate, swing=0.9))
        for source in people(0.7)
        if isinstance(source, Sessions)
    ),
    seconds=86400.0,
)

_BURSTS = replace(
    USUAL,
    name="short-bursts",
    summary="Every ten minutes sixty requests come at once.",
    shows="Slots full and a queue for a few seconds, long before anybody should be woken.",
    incidents=tuple(
        Incident(
            name=f"burst {number}",
            start=600.0 * number,
            end=600.0 * number + 30.0,
            traffic=(
                Workers(
                    name=f"burst-{number}",
                    client="reports",
                    profile=JOB,
                    at_once=60,
                    sessions=60,
                    since=600.0 * number,
                ),
            ),
        )
        for number in range(1, 6)
    ),
)

_QUIET = replace(
    USUAL,
    name="long-quiet",
    summary="A night with a request every ten minutes.",
    shows="Zero traffic for minutes on end: rates of nothing, quantiles of nothing, and no alarm.",
    workload=(
        Sessions(
            name="night-watch",
            client="chat-app",
            profile=replace(PEOPLE[0].profile, turns=Spread(median=1)),
            rate=Rate(per_s=1 / 600),
            manners=CALM,
        ),
    ),
    seconds=3 * SECONDS,
)

_SWAP = replace(
    USUAL,
    name="blue-green",
    summary="Two rollouts: a new process is ready before the old one gets no more requests.",
    shows="Counters begin again and the prefix cache is cold for a moment; nobody is refused.",
    incidents=tuple(
        Incident(name=f"swap {at:g}", start=at, end=at + 60.0, deeds=(Deed(at, lambda it: it.swap()),))
        for at in (1200.0, 2400.0)
    ),
)

_LOAD = replace(
    USUAL,
    name="model-load",
    summary="A server starts and loads its model for ten minutes before it gets requests.",
    shows="Nothing answers at first, then all is well.",
    workload=tuple(replace(source, since=660.0) for source in PEOPLE),
    starting=True,
    load_s=600.0,
)

_FULL_BATCH = replace(
    USUAL,
    name="full-batch",
    summary="A batch job on a server of its own keeps the KV cache at 95 %, as it should.",
    shows="KV usage near the top for an hour, hardly a preemption, nothing that misses its target.",
    limits=replace(ROOMY, max_num_seqs=128, num_gpu_blocks=6_150),
    workload=(
        Workers(
            name="nightly-job",
            client="batch",
            profile=replace(JOB, context=Spread(median=600), output=Spread(median=400, sigma=0.2)),
            at_once=111,
        ),
    ),
    service_class=ServiceClass.BATCH,
    allowed=("VLLMKVCacheNearFull",),  # it says how full the cache is, not that anybody suffers
)

#: Sessions whose next turn nobody can come back for while the engine sleeps.
_ONE_QUESTION_EACH = tuple(
    replace(source, profile=replace(source.profile, turns=Spread(median=1))) for source in people(0.6)
)

_SLEEP = replace(
    USUAL,
    name="sleep-and-wake",
    summary="The engine sleeps for half an hour in which nobody asks anything.",
    shows="It says that it sleeps; no traffic, no progress, no alarm.",
    workload=(
        *(replace(source, until=900.0) for source in _ONE_QUESTION_EACH),
        *(replace(source, name=f"{source.name}-later", since=3300.0) for source in _ONE_QUESTION_EACH),
    ),
    incidents=(
        Incident(
            name="asleep",
            start=1500.0,
            end=3240.0,
            deeds=(Deed(1500.0, lambda it: it.sleep()), Deed(3240.0, lambda it: it.serve())),
        ),
    ),
)

HEALTHY = (USUAL, _DAY, _BURSTS, _QUIET, _SWAP, _LOAD, _FULL_BATCH, _SLEEP)
