"""The demo's story: a scenario that is told within a few minutes, and what of it has happened by when."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import NamedTuple

from vllm_observe.errors import ConfigError
from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.incidents import Incident
from vllm_observe.sim.scenarios.registry import SCENARIOS
from vllm_observe.sim.scenarios.scenario import Scenario

__all__ = ["DEFAULT", "STORIES", "Mark", "Story", "told"]

#: The scenario that a newcomer sees: what the product is for, first of all.
DEFAULT = "slots-exhausted"


class _Telling(NamedTuple):
    """How long it takes until the trouble, with it, and after it, in seconds; how many incidents are told.

    Long enough to see a server that is well; for the queue to grow and the alert to fire; to see it pass.
    """

    before: float = 12.0
    during: float = 45.0
    after: float = 30.0
    first: int | None = None

    def of(self, scenario: Scenario) -> Scenario:
        told = replace(scenario, incidents=scenario.incidents[: self.first])
        return hurried(told, before=self.before, during=self.during, after=self.after)


#: What needs more time: an answer of 4,096 tokens takes two minutes; clients give up after forty
#: seconds; that scrapes fail must last before anybody is told; before the engine sleeps, what was begun
#: has to end. And of bursts that come every ten minutes one is told: five of them within two minutes are
#: no healthy day.
_OTHERWISE = {
    "runaway-outputs": _Telling(during=150.0),
    "retry-storm": _Telling(during=80.0),
    "scrape-fails": _Telling(during=60.0),
    "short-bursts": _Telling(before=24.0, during=30.0, first=1),
    "sleep-and-wake": _Telling(before=60.0),
}
#: By what every span of time in the rules is divided while something goes wrong: five minutes become
#: fifteen seconds.
_PRESSED = 20
#: How long the first start takes, of a scenario that begins with one.
_LOAD_S = 20.0


#: Scenarios that are not told, and why not.
_UNTOLD = {
    "prefix-cache-lost": "conversations grow for half an hour before the loss of their prefixes costs anything"
}
#: The names of those that are.
STORIES = tuple(name for name in SCENARIOS if name not in _UNTOLD)


class Mark(NamedTuple):
    """A moment of the story, in seconds since its beginning, and what happens then."""

    at: float
    text: str


def told(name: str) -> Scenario:
    """Return a scenario as the demo tells it.

    Raises:
        ConfigError: there is none of that name, or it takes too long to be told.
    """
    if name in _UNTOLD:
        raise ConfigError(f"--scenario: {name} takes too long for a demo: {_UNTOLD[name]}")
    if name not in SCENARIOS:
        near = "".join(f" (did you mean {one}?)" for one in get_close_matches(name, STORIES, n=1))
        raise ConfigError(f"--scenario: there is no {name!r}{near}; --list names them all")
    scenario = SCENARIOS[name]
    if scenario.starting:
        scenario = _loads_soon(scenario)
    return _OTHERWISE.get(name, _Telling()).of(scenario)


def _loads_soon(scenario: Scenario) -> Scenario:
    """Press together the time in which the model is loaded, and in which its users stay away for that."""
    pace = _LOAD_S / scenario.load_s
    workload = tuple(replace(source, since=source.since * pace) for source in scenario.workload)
    return replace(scenario, load_s=_LOAD_S, workload=workload)


class Story:
    """What a person is told of a scenario, by the seconds since its beginning.

    Attributes:
        scenario: as it is played.
        begins: when the first thing happens; the whole length where nothing does.
        pressed_by: what every span of time in the alerting rules is divided by. On a healthy day it is 1:
            noise is short, and rules in which seconds count for minutes cannot tell it from trouble.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.begins = min((incident.start for incident in scenario.incidents), default=scenario.seconds)
        self.pressed_by = 1 if scenario.healthy else _PRESSED

    @property
    def marks(self) -> list[Mark]:
        """When each incident begins and ends."""
        begins = (Mark(one.start, f"{one.name} begins: {self.scenario.summary}") for one in self._incidents)
        ends = (Mark(one.end, f"{one.name} ends") for one in self._incidents)
        return sorted((*begins, *ends))

    def at(self, now: float) -> str:
        """Say what happens now, and what next."""
        for one in self._incidents:
            if now < one.start:
                return f"{one.name} in {one.start - now:.0f} s; until then all is well"
            if one.during(now):
                return f"{one.name} since {now - one.start:.0f} s, for another {one.end - now:.0f} s"
        if not self._incidents:
            allowed = " and ".join(self.scenario.allowed)
            return f"nothing out of the ordinary: {f'only {allowed}' if allowed else 'no alert'} may fire"
        last = self._incidents[-1]
        return f"{last.name} is over since {now - last.end:.0f} s"

    @property
    def _incidents(self) -> tuple[Incident, ...]:
        return self.scenario.incidents
