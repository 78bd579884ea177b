"""What befalls a server, as data: each incident has a time, what is done, and what it must lead to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vllm_observe.model import BindingLimit, Cause
from vllm_observe.sim.control import Deed
from vllm_observe.sim.scenarios.workloads import Workload

__all__ = ["NOTHING", "Deed", "Expected", "Incident", "delay_at", "timeline"]


class Expected(NamedTuple):
    """What an incident must lead to; of a healthy day nothing.

    Attributes:
        causes: the true causes that most of the requests that it made slow or failed have.
        limit: the engine's binding limit meanwhile.
        alerts: names of the alerts that must fire.
        allowed: names of alerts that may fire besides.
    """

    causes: frozenset[Cause] = frozenset()
    limit: BindingLimit | None = None
    alerts: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()


#: What noise leads to.
NOTHING = Expected()


@dataclass(frozen=True, kw_only=True)
class Incident:
    """Something that happens between two times.

    Attributes:
        start: seconds on the simulation's clock.
        end: when it is over; what it did may be felt for longer.
        deeds: what is done to the server, in the order of time.
        traffic: who comes besides.
        delay_s: what every request sent meanwhile spends outside the engine besides.
        expected: what it must lead to.
    """

    name: str
    start: float
    end: float
    deeds: tuple[Deed, ...] = ()
    traffic: Workload = ()
    delay_s: float = 0.0
    expected: Expected = NOTHING

    def __post_init__(self) -> None:
        if not self.start < self.end:
            raise ValueError(f"{self.name} ends before it begins")

    def during(self, when: float) -> bool:
        """Say whether a time lies within it."""
        return self.start <= when < self.end


def timeline(incidents: Iterable[Incident]) -> list[Deed]:
    """Return all deeds of some incidents, in the order of time."""
    return sorted((deed for incident in incidents for deed in incident.deeds), key=lambda deed: deed.at)


def delay_at(incidents: Iterable[Incident], when: float) -> float:
    """Return what a request sent at a time spends outside the engine, for all that happens then."""
    return sum(incident.delay_s for incident in incidents if incident.during(when))
