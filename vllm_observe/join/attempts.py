"""One id's records, sorted by time into attempts.

An id does not name one request: clients retry with it, send it twice at once, or ask for several
answers. Time tells them apart. Edge records of one attempt (app, proxy, middleware) nest like
brackets; those that do not nest are attempts of their own. Each engine part belongs to the attempt
that it fits into best, and to none of them where it ran at quite another time.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vllm_observe.model import Claimed, EdgeRecord, EngineRecord

__all__ = ["UNKNOWN_CLOCKS_S", "Attempt", "arrange", "engine_start", "misfit", "slack"]

#: What two clocks' readings of one moment may differ by: milliseconds cut off, and two log calls.
_ROUNDING_S = 0.05
#: The same where a record's time carries whole seconds only.
_WHOLE_SECOND_S = 1.0
#: How far an engine part may lie from the only record that it can belong to, as long as the difference
#: between their clocks is unknown: hosts without time synchronisation drift by seconds a day.
UNKNOWN_CLOCKS_S = 30.0

_R = TypeVar("_R", EdgeRecord, EngineRecord)


@dataclass(slots=True)
class Attempt:
    """One attempt's records, and what was handed out of them."""

    edges: list[EdgeRecord] = field(default_factory=list)  # outermost first
    engines: list[EngineRecord] = field(default_factory=list)  # in order of their start
    number: int = 0  # among its id's, from 1; 0 where it has none yet
    uid: str = ""  # of the request that was handed out of it, or of a part of it
    handed_out: int = 0  # records in that request
    absorbs: tuple[str, ...] = ()  # uids of other requests merged into it since then
    claimed: Claimed = field(default_factory=Claimed)  # tokens of all that was handed out

    @property
    def started_at(self) -> float:
        """When its first record began."""
        return min([edge.started_at for edge in self.edges] or map(engine_start, self.engines))

    @property
    def size(self) -> int:
        """How many records it holds."""
        return len(self.edges) + len(self.engines)

    @property
    def has_ended(self) -> bool:
        """Whether any record tells how it ended; an arrival alone says nothing of how the request went on."""
        return bool(self.edges) or any(part.outcome is not None for part in self.engines)

    @property
    def is_news(self) -> bool:
        """Whether it holds what was not handed out yet."""
        return self.handed_out != self.size or bool(self.absorbs)

    def inherit(self, other: Attempt) -> None:
        """Take over the identity of another attempt, of which something was handed out; only one can."""
        if not other.uid:
            return
        if self.uid:
            self.absorbs += (other.uid,)
        else:
            self.uid, self.number = other.uid, other.number
        self.absorbs += other.absorbs
        self.claimed = Claimed(*map(sum, zip(self.claimed, other.claimed, strict=True)))
        other.uid, other.number, other.handed_out, other.absorbs, other.claimed = "", 0, 0, (), Claimed()


def engine_start(part: EngineRecord) -> float:
    """When an engine part began: by its latency, or by its phases where that is not known."""
    if part.e2e_s is not None:
        return part.started_at
    return part.ts - sum(phase or 0.0 for phase in (part.queue_s, part.prefill_s, part.decode_s))


def slack(edge: EdgeRecord) -> float:
    """Seconds by which a record's times may be wrong on the best of clocks."""
    return _WHOLE_SECOND_S if edge.ts % 1 == 0 else _ROUNDING_S


def misfit(part: EngineRecord, edge: EdgeRecord) -> float:
    """Seconds of an engine part that lie outside of an edge record, beyond a clock's rounding."""
    rounding = slack(edge)
    before = edge.started_at - engine_start(part)
    after = part.ts - edge.ts
    return max(0.0, before - rounding) + max(0.0, after - rounding)


def arrange(
    known: Collection[Attempt],
    edges: Collection[EdgeRecord],
    engines: Collection[EngineRecord],
    *,
    apart: float = UNKNOWN_CLOCKS_S,
) -> list[Attempt]:
    """Sort records into the known attempts and into new ones, in order of their start.

    The order of the records does not matter. A known attempt of engine parts alone dissolves where an edge
    record fits them: they move to that record's attempt, together with what was handed out of them.

    Args:
        known: the attempts of this id so far.
        edges: records that are in none of them, on the engines' clock as far as it is known.
        engines: the same of the engine's side.
        apart: seconds that may lie between an attempt and its only engine parts.
    """
    if not known and len(edges) == 1:
        (edge,) = edges
        if not any(misfit(part, edge) for part in engines):  # nearly every request
            return [Attempt([edge], list(_sorted(engines, _by_start)))]
    attempts = [attempt for attempt in known if attempt.edges]
    for edge in _sorted(edges, _outermost_first):
        _place_edge(attempts, edge)
    if not attempts:
        return _by_overlap(known, engines)
    attempts.sort(key=lambda attempt: attempt.started_at)
    alone = [attempt for attempt in known if not attempt.edges]
    strays = _place_parts(attempts, alone, engines, apart)
    if strays:
        for attempt in alone:
            attempt.engines = [part for part in attempt.engines if part in strays]
        alone = [attempt for attempt in alone if attempt.engines]
        kept = {part for attempt in alone for part in attempt.engines}
        attempts += _by_overlap(alone, [part for part in strays if part not in kept])
        attempts.sort(key=lambda attempt: attempt.started_at)
    return _in_order(attempts)


def _sorted(records: Collection[_R], order: Callable[[_R], tuple[float, float, str]]) -> Iterable[_R]:
    # Nearly every request has one record of each side, and an order's last resort is a slow repr.
    return sorted(records, key=order) if len(records) > 1 else records


def _outermost_first(edge: EdgeRecord) -> tuple[float, float, str]:
    return (-(edge.duration_s or 0.0), edge.ts, repr(edge))


def _by_start(part: EngineRecord) -> tuple[float, float, str]:
    return (engine_start(part), part.ts, repr(part))


def _place_edge(attempts: list[Attempt], edge: EdgeRecord) -> None:
    around = [attempt for attempt in attempts if _nest(edge, attempt.edges[0])]
    if not around:
        attempts.append(Attempt(edges=[edge]))
        return
    home = min(around, key=lambda attempt: attempt.edges[0].duration_s or 0.0)
    insort(home.edges, edge, key=_outermost_first)


def _nest(one: EdgeRecord, other: EdgeRecord) -> bool:
    """Say whether one of the two lies within the other."""
    most = max(slack(one), slack(other))
    if most < _WHOLE_SECOND_S and _follow(one, other):
        return False
    begins, ends = one.started_at - other.started_at, one.ts - other.ts
    return (begins >= -most and ends <= most) or (begins <= most and ends >= -most)


def _follow(one: EdgeRecord, other: EdgeRecord) -> bool:
    """Say whether one began when the other was over, by the one clock of both: a quick retry."""
    if one.source is None or one.source != other.source or None in (one.duration_s, other.duration_s):
        return False
    return one.started_at > other.ts or other.started_at > one.ts


def _place_parts(
    attempts: Sequence[Attempt], alone: Collection[Attempt], engines: Collection[EngineRecord], apart: float
) -> set[EngineRecord]:
    """Assign engine parts to the attempts that they fit into; return those that fit into none."""
    dissolved = {part: attempt for attempt in alone for part in attempt.engines}
    placed = {part for attempt in attempts for part in attempt.engines}
    for part in _sorted({*dissolved, *engines} - placed, _by_start):
        _best(attempts, part).engines.append(part)
    strays = set()
    for attempt in attempts:
        gaps = {part: _gap(part, attempt) for part in attempt.engines}
        # Where one part ran within the attempt, the clocks agree: a part of another time is not part of it.
        most = 0.0 if 0.0 in gaps.values() else apart
        far = {part for part, gap in gaps.items() if gap > most and part not in placed}
        if far:
            attempt.engines = [part for part in attempt.engines if part not in far]
            strays |= far
        for part in attempt.engines:
            if part in dissolved:
                attempt.inherit(dissolved[part])
    return strays


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


def _gap(part: EngineRecord, attempt: Attempt) -> float:
    """Seconds between an engine part and an attempt that plainly did not run at the same time; else 0.

    An engine may go on long after its client has left, an edge record without a duration began at any
    time before its end, and some apps log a request's end with the time of its start.
    """
    edge = attempt.edges[0]
    started_at = -math.inf if edge.duration_s is None else edge.started_at
    between = max(started_at - part.ts, engine_start(part) - edge.ts)
    return max(0.0, between - _WHOLE_SECOND_S - (edge.duration_s or 0.0))


def _by_overlap(known: Iterable[Attempt], engines: Collection[EngineRecord]) -> list[Attempt]:
    """Group engine parts that no edge record holds together: those that ran at the same time."""
    attempts = list(known)
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
