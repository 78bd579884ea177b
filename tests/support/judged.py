"""A simulated run through the real reader, joiner and classifier: what they name beside what is true."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from vllm_observe.clock import Clock, ManualClock
from vllm_observe.engine.history import History
from vllm_observe.join.causes import Classifier
from vllm_observe.join.joiner import Joiner
from vllm_observe.join.outbox import Classify
from vllm_observe.join.surroundings import EngineHistory
from vllm_observe.join.usual import UsualRequests
from vllm_observe.logs import EventLog, Faults
from vllm_observe.model import Cause, JoinedRequest, Limits, ServiceClass
from vllm_observe.records.format1 import decode
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.labels import Label, Promise, label
from vllm_observe.sim.play import Event, Seen, play
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.records import line, records, sample_at
from vllm_observe.sim.requests import Arrival
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.virtual import EPOCH as STORY_EPOCH
from vllm_observe.sim.scenarios.virtual import Scrape, play_scenario
from vllm_observe.thresholds import TARGETS

EPOCH = 1_790_000_000.25
TARGET = TARGETS[ServiceClass.INTERACTIVE]
PROMISE = Promise(TARGET.ttft, TARGET.tpot)


class Judged(NamedTuple):
    """One request: what became of it in the join, and the truth."""

    request: JoinedRequest
    truth: Label

    @property
    def named(self) -> Cause | None:
        return None if self.request.evidence is None else self.request.evidence.cause


def _joiner(clock: Clock, samples: EngineHistory, classify: Classify) -> Joiner:
    return Joiner(
        clock=clock,
        window=60.0,
        max_pending=10_000,
        samples=samples,
        classify=classify,
        faults=Faults(EventLog("join")),
    )


class _Samples:
    def __init__(self) -> None:
        self._history = History(keep=1e9, max_samples=1_000_000)

    def add(self, seen: Seen) -> None:
        self._history.scraped(EPOCH + seen.at, [sample_at(sample, epoch=EPOCH) for sample in seen.samples])

    def scraped(self, scrape: Scrape) -> None:
        if scrape.samples:
            self._history.scraped(scrape.at, scrape.samples)

    def sample_before(self, where, when):
        return self._history.before(where, when, max_age=15.0)

    def samples_between(self, where, start, end):
        return self._history.between(where, start, end)


def judge(
    deployment: Deployment, arrivals: Iterable[Arrival], *, until: float, events: Iterable[Event] = ()
) -> list[Judged]:
    """Play a run into the product, as lines of a log and samples every five seconds."""
    clock, samples, usual = ManualClock(wall=EPOCH), _Samples(), UsualRequests()
    classifier = Classifier(targets=TARGET, limits_for=lambda _: deployment.engine_limits(), usual=usual.of)
    joiner = _joiner(clock, samples, classifier)
    truths: dict[str, Label] = {}
    found: list[JoinedRequest] = []

    def close(closed: Iterable[JoinedRequest]) -> None:
        for request in closed:
            usual.observe(request)
            found.append(request)

    for told in play(deployment, arrivals, until=until, events=events):
        clock.advance(told.at - clock.monotonic())
        close(joiner.close_due(clock.monotonic()))
        if isinstance(told, Seen):
            samples.add(told)
            continue
        truths[told.arrival.request_id] = label(told, PROMISE, epoch=EPOCH)
        for record in records(told, epoch=EPOCH, model=deployment.model):
            joiner.add(decode(line(record).rstrip(b"\n")))
    close(joiner.drain())
    return [Judged(request, truths[request.request_id]) for request in found]


def judge_story(
    scenario: Scenario, *, sides: Iterable[str] = ("app", "middleware", "engine")
) -> list[Judged]:
    """Play a scenario into the product, of its three logs those that are named."""
    clock, history, usual = ManualClock(wall=STORY_EPOCH), _Samples(), UsualRequests()
    limits = Limits()
    classifier = Classifier(
        targets=TARGETS[scenario.service_class], limits_for=lambda _: limits, usual=usual.of
    )
    joiner = _joiner(clock, history, classifier)
    truths: dict[tuple[str, int], Label] = {}
    found: dict[str, JoinedRequest] = {}

    def close(closed: Iterable[JoinedRequest]) -> None:
        for request in closed:
            if not request.amends:
                usual.observe(request)
            found[request.uid] = request

    for told in play_scenario(scenario, release=None):
        at = told.at - STORY_EPOCH if isinstance(told, Scrape) else told.ended.at
        clock.advance(max(0.0, at - clock.monotonic()))
        close(joiner.close_due(clock.monotonic()))
        if isinstance(told, Scrape):
            history.scraped(told)
            limits = told.limits or limits
            continue
        truths[told.label.request_id, round(told.label.ended_at)] = told.label
        for line_ in (getattr(told.lines, side) for side in sides):
            if line_ is not None:
                joiner.add(decode(line_.rstrip(b"\n")))
    close(joiner.drain())
    return [
        Judged(request, truths[request.request_id.removeprefix("chatcmpl-"), round(request.ended_at)])
        for request in found.values()
    ]


def chats(
    rate: Callable[[float], float],
    *,
    seconds: float,
    seed: int,
    name: str = "chat",
    output: int = 200,
    **values,
) -> Iterator[Arrival]:
    """Independent requests of an assistant: about a thousand prompt tokens, output around a mean."""
    chance, at, number = random.Random(seed), 0.0, 0
    while (at := at + chance.expovariate(rate(at))) < seconds:
        number += 1
        yield Arrival(
            at=at,
            request_id=f"{name}-{number}",
            prompt=(Segment("system", 300), Segment(f"{name} {number}", chance.randint(50, 1500))),
            output_tokens=1 + int(chance.expovariate(1 / output)),
            max_tokens=2048,
            outside_s=0.005,
            profile="assistant",
            **values,
        )


def table(judged: Iterable[Judged]) -> Counter[tuple[str, str | None]]:
    """How often each true cause was named as what, over requests that broke their promise or failed."""
    return Counter(
        (one.truth.cause.value, None if one.named is None else one.named.value)
        for one in judged
        if one.truth.slow or one.truth.failed
    )


def share_right(judged: Iterable[Judged]) -> float:
    """The share of those requests whose true cause was named."""
    wrong = [one for one in judged if one.truth.slow or one.truth.failed]
    return sum(one.truth.agrees(one.named) for one in wrong if one.named is not None) / len(wrong)
