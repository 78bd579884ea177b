"""Scenarios played once, in a hurry, for all tests that look at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from vllm_observe.model import EngineSample
from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.registry import SCENARIOS
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.virtual import Play, Scrape, Told

BEFORE, DURING, AFTER = 200.0, 400.0, 100.0
START, END = BEFORE, BEFORE + DURING


@dataclass(frozen=True)
class Part:
    """What was told between two times."""

    scrapes: list[Scrape]
    ends: list[Told]

    @property
    def samples(self) -> list[EngineSample]:
        return [sample for scrape in self.scrapes for sample in scrape.samples]

    def share(self, holds: Callable[[EngineSample], bool]) -> float:
        """The share of the samples of which something holds."""
        return sum(map(holds, self.samples)) / len(self.samples)

    def gained(self, counter: str) -> float:
        """What a counter gained from the first sample to the last."""
        return getattr(self.samples[-1], counter) - getattr(self.samples[0], counter)

    def held(self) -> Counter[str]:
        """For how many seconds what kept requests waiting."""
        total: Counter[str] = Counter()
        for one in self.ends:
            total.update(one.label.held)
        return total

    @property
    def wrong(self) -> list[Told]:
        """Requests that failed or broke their promise."""
        return [one for one in self.ends if one.label.failed or one.label.slow]


@dataclass(frozen=True)
class Stage:
    """A whole playing. Times are seconds from its beginning."""

    scenario: Scenario
    told: list[Scrape | Told]
    sent: int
    in_flight: int

    def part(self, start: float = 0.0, end: float = float("inf")) -> Part:
        return Part(
            [one for one in self.told if isinstance(one, Scrape) and start <= one.at < end],
            [one for one in self.told if isinstance(one, Told) and start <= one.ended.at < end],
        )


def play(scenario: Scenario, *, seed: int = 0, release: str | None = None) -> Stage:
    """Play a scenario whose second 0 is the epoch's, with a scrape every five seconds."""
    one = Play(scenario, seed=seed, release=release, epoch=0.0)
    return Stage(scenario, list(one.run(5.0)), one.clients.sent, one.clients.in_flight)


@cache
def staged(name: str) -> Stage:
    """A scenario of the registry, hurried to 200 seconds of calm, 400 of trouble, 100 after it."""
    return play(hurried(SCENARIOS[name], before=BEFORE, during=DURING, after=AFTER))


def share(found: Iterable[bool]) -> float:
    """The share of those that are true."""
    told = list(found)
    return sum(told) / len(told)
