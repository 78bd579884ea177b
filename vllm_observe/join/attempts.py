"""One id's records, sorted by time into attempts.

An id does not name one request: clients retry with it, send it twice at once, or ask for several
answers. Time tells them apart. Edge records of one attempt (app, proxy, middleware) nest like
brackets; those that do not nest are attempts of their own. Each engine part belongs to the attempt
that it fits into best.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vllm_observe.model import EdgeRecord, EngineRecord

__all__ = ["Attempt", "arrange", "engine_start", "misfit"]

#: What two clocks' readings of one moment may differ by: milliseconds cut off, and two log calls.
_ROUNDING_S = 0.05
#: The same where a record's time carries whole seconds only.
_WHOLE_SECOND_S = 1.0

_R = TypeVar("_R", EdgeRecord, EngineRecord)


@dataclass(slots=True)
class Attempt:
    """One attempt's records."""

    edges: list[EdgeRecord] = field(default_factory=list)  # outermost first
    engines: list[EngineRecord] = field(default_factory=list)  # in order of their start
    number: int = 0  # among its id's, from 1; 0 where it has none yet
    told: bool = False  # a request was handed out of it, or of a part of it

    @property
    def started_at(self) -> float:
        """When its first record began."""
        return min([edge.started_at for edge in self.edges] or map(engine_start, self.engines))

    @property
    def size(self) -> int:
        """How many records it holds."""
        return len(self.edges) + len(self.engines)

    def inherit(self, other: Attempt) -> None:
        """Take the place of another, of which something was handed out; only one attempt can."""
        self.told |= other.told
        self.number = self.number or other.number
        other.told, other.number = False, 0


def engine_start(part: EngineRecord) -> float:
    """When an engine part began: by its latency, or by its phases where that is not known."""
    if part.e2e_s is not None:
        return part.started_at
    return part.ts - sum(phase or 0.0 for phase in (part.queue_s, part.prefill_s, part.decode_s))


def misfit(part: EngineRecord, edge: EdgeRecord) -> float:
    """Seconds of an engine part that lie outside of an edge record, beyond a clock's rounding."""
    slack = _slack(edge)
    before = edge.started_at - engine_start(part)
    after = part.ts - edge.ts
    return max(0.0, before - slack) + max(0.0, after - slack)


def arrange(
    told: Collection[Attempt], edges: Collection[EdgeRecord], engines: Collection[EngineRecord]
) -> list[Attempt]:
    """Sort records into the attempts that were told before and into new ones, in order of their start.

    The order of the records does not matter. An attempt that was told of engine parts alone dissolves
    where there is an edge record: its parts go where they fit, and that it was told goes along.
    """
    attempts = [attempt for attempt in told if attempt.edges]
    for edge in _sorted(edges, _outermost_first):
        _place_edge(attempts, edge)
    if not attempts:
        return _by_overlap(told, engines)
    attempts.sort(key=lambda attempt: attempt.started_at)
    dissolved = {part: attempt for attempt in told if not attempt.edges for part in attempt.engines}
    placed = {part for attempt in attempts for part in attempt.engines}
    for part in _sorted({*dissolved, *engines} - placed, _by_start):
        home = _best(attempts, part)
        home.engines.append(part)
        if part in dissolved:
            home.inherit(dissolved[part])
    return _in_order(attempts)


def _sorted(records: Collection[_R], order: Callable[[_R], tuple[float, float, str]]) -> Iterable[_R]:
    # Nearly every request has one record of each side, and an order's last resort is a slow repr.
    return sorted(records, key=order) if len(records) > 1 else records


def _outermost_first(edge: EdgeRecord) -> tuple[float, float, str]:
    return (-(edge.duration_s or 0.0), edge.ts, repr(edge))


def _by_start(part: EngineRecord) -> tuple[float, float, str]:
    return (engine_start(part), part.ts, repr(part))


def _slack(edge: EdgeRecord) -> float:
    return _WHOLE_SECOND_S if edge.ts % 1 == 0 else _ROUNDING_S


def _place_edge(attempts: list[Attempt], edge: EdgeRecord) -> None:
    around = [attempt for attempt in attempts if _nest(edge, attempt.edges[0])]
    if not around:
        attempts.append(Attempt(edges=[edge]))
        return
    home = min(around, key=lambda attempt: attempt.edges[0].duration_s or 0.0)
    insort(home.edges, edge, key=_outermost_first)


def _nest(one: EdgeRecord, other: EdgeRecord) -> bool:
    """Say whether one of the two lies within the other."""
    slack = max(_slack(one), _slack(other))
    begins, ends = one.started_at - other.started_at, one.ts - other.ts
    return (begins >= -slack and ends <= slack) or (begins <= slack and ends >= -slack)


def _best(attempts: Sequence[Attempt], part: EngineRecord) -> Attempt:
    """Find the attempt that a part fits into best.

    Between equals the least served comes first, so that parts and attempts pair up by time.
    """
    if len(attempts) == 1:
        return attempts[0]
    misfits = [misfit(part, attempt.edges[0]) for attempt in attempts]
    least = min(misfits)
    equals = [attempt for attempt, seconds in zip(attempts, misfits, strict=True) if seconds == least]
    return min(equals, key=lambda attempt: (len(attempt.engines), _distance(part, attempt)))


def _distance(part: EngineRecord, attempt: Attempt) -> float:
    edge = attempt.edges[0]
    return abs(edge.started_at - engine_start(part)) + abs(edge.ts - part.ts)


def _by_overlap(told: Iterable[Attempt], engines: Collection[EngineRecord]) -> list[Attempt]:
    """Group engine parts that no edge record holds together: those that ran at the same time."""
    attempts = list(told)
    for part in _sorted(engines, _by_start):
        home = next((attempt for attempt in attempts if _overlaps(part, attempt)), None)
        if home is None:
            home = Attempt()
            attempts.append(home)
        home.engines.append(part)
    return _in_order(attempts)


def _in_order(attempts: list[Attempt]) -> list[Attempt]:
    for attempt in attempts:
        attempt.engines = list(_sorted(attempt.engines, _by_start))
    return attempts


def _overlaps(part: EngineRecord, attempt: Attempt) -> bool:
    ended_at = max(other.ts for other in attempt.engines)
    return engine_start(part) <= ended_at + _ROUNDING_S and part.ts >= attempt.started_at - _ROUNDING_S
