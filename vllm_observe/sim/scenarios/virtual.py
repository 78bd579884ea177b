"""A scenario on a clock that costs nothing: hours in seconds, the same for the same seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from vllm_observe.model import EngineSample, Limits
from vllm_observe.sim.control import Control
from vllm_observe.sim.exposition import Exposition
from vllm_observe.sim.labels import Label, label
from vllm_observe.sim.records import edge_record, engine_record, line, middleware_record, sample_at
from vllm_observe.sim.requests import Arrival, End, Ended
from vllm_observe.sim.scenarios.clients import REACTION_S, Heard
from vllm_observe.sim.scenarios.scenario import Scenario

__all__ = ["EPOCH", "RELEASE", "Lines", "Play", "Scrape", "Told", "play_scenario"]

#: The time of day at second 0, where nobody says another: a Monday, 09:33:20 UTC.
EPOCH = 1_790_588_000.0
#: The release whose page is written, where nobody says another.
RELEASE = "0.32.0"

_HEARD = {End.STOP: Heard.ANSWERED, End.LENGTH: Heard.ANSWERED, End.INVALID: Heard.INVALID}


class Lines(NamedTuple):
    """A request in the logs: lines of record format 1, their newlines included.

    Attributes:
        app: an edge record of the app's own.
        middleware: an edge record of the middleware inside vLLM.
        engine: an engine record, where vLLM tells of the request.
    """

    app: bytes
    middleware: bytes
    engine: bytes | None


class Told(NamedTuple):
    """A request that ended. ``lines`` is ``None`` while the logs are stopped; the label is the truth."""

    ended: Ended
    label: Label
    lines: Lines | None


class Scrape(NamedTuple):
    """The server as it was seen at a time, in seconds since the Unix epoch.

    Attributes:
        answers: whether /metrics answered.
        page: what, in Prometheus's text format; ``None`` where nothing did, or no page was asked for.
        samples: what the engines tell in their log; none while there is no process or no log.
        limits: the engines' limits; ``None`` where there are no samples.
        started_at: when the present process was started.
    """

    at: float
    answers: bool
    page: str | None
    samples: list[EngineSample]
    limits: Limits | None
    started_at: float


def play_scenario(
    scenario: Scenario,
    *,
    seed: int = 0,
    scrape_every: float = 5.0,
    release: str | None = RELEASE,
    epoch: float = EPOCH,
) -> Iterator[Scrape | Told]:
    """Play a scenario; tell, in order, of each scrape and of each request that ended.

    What is still running at the end is not told of.

    Args:
        scenario: what happens.
        seed: of all chance.
        scrape_every: seconds between two scrapes; the first is one such time after the beginning.
        release: the vLLM whose page is written; ``None`` writes none.
        epoch: the time of day at second 0.
    """
    return Play(scenario, seed=seed, release=release, epoch=epoch).run(scrape_every)


class Play:
    """One playing of a scenario.

    Attributes:
        deployment: the server.
        clients: its clients.
    """

    def __init__(self, scenario: Scenario, *, seed: int, release: str | None, epoch: float) -> None:
        self.deployment = scenario.deployment(seed)
        self.clients = scenario.clients(seed)
        self._scenario = scenario
        self._control = Control(self.deployment)
        self._exposition = None if release is None else Exposition(release, epoch=epoch)
        self._epoch = epoch
        self._deeds = deque(scenario.timeline)
        self._on_the_way: list[tuple[float, int, Arrival]] = []
        self._order = count()

    def run(self, scrape_every: float) -> Iterator[Scrape | Told]:
        """Play it once from its beginning to its end."""
        end, scrape_at = self._scenario.seconds, scrape_every
        while (now := min(self._next_at(), scrape_at)) <= end:
            yield from self._advance(now)
            while self._deeds and self._deeds[0].at <= now:
                self._deeds.popleft().act(self._control)
            for arrival in self.clients.due(now):
                heappush(self._on_the_way, (arrival.reaches_engine_at, next(self._order), arrival))
            while self._on_the_way and self._on_the_way[0][0] <= now:
                self.deployment.submit(heappop(self._on_the_way)[2])
            if scrape_at <= now:
                yield self._scrape(now)
                scrape_at += scrape_every
        yield from self._advance(end)

    def _next_at(self) -> float:
        """When something happens next; at the latest when a client may act upon an answer till then."""
        coming = [self.clients.next_at]
        if self._deeds:
            coming.append(self._deeds[0].at)
        if self._on_the_way:
            coming.append(self._on_the_way[0][0])
        if self.clients.in_flight > len(self._on_the_way):
            coming.append(self.deployment.now + REACTION_S)
        return max(min(coming), self.deployment.now)

    def _advance(self, until: float) -> Iterator[Told]:
        for ended in self.deployment.advance(until):
            self.clients.hear(ended.arrival, _heard(ended), ended.at)
            yield self._told(ended)

    def _told(self, ended: Ended) -> Told:
        epoch = self._epoch
        truth = label(ended, self._scenario.promise, epoch=epoch)
        if self._control.log_stopped:
            return Told(ended, truth, None)
        inside = engine_record(ended, epoch=epoch)
        app = edge_record(ended, epoch=epoch, model=self._scenario.model)
        lines = Lines(
            app=line(app),
            middleware=line(middleware_record(ended, epoch=epoch)),
            engine=None if inside is None else line(inside),
        )
        return Told(ended, truth, lines)

    def _scrape(self, now: float) -> Scrape:
        server, epoch = self.deployment, self._epoch
        samples = [sample_at(sample, epoch=epoch) for sample in server.samples()]
        answers = bool(samples) and not self._control.scrape_fails
        logged = bool(samples) and not self._control.log_stopped
        return Scrape(
            at=epoch + now,
            answers=answers,
            page=self._exposition.text(server) if answers and self._exposition is not None else None,
            samples=samples if logged else [],
            limits=server.engine_limits() if logged else None,
            started_at=epoch + server.started_at,
        )


def _heard(ended: Ended) -> Heard:
    if ended.end is End.LEFT:
        return Heard.TIMED_OUT if ended.arrival.times_out else Heard.LEFT
    return _HEARD.get(ended.end, Heard.FAILED)
