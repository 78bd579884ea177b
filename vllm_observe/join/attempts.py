"""One id's records, sorted by time into attempts.

An id does not name one request: clients retry with it, send it twice at once, or ask for several
answers. Time tells them apart. Edge records of one attempt (app, proxy, middleware) nest like
brackets; those that do not nest are attempts of their own, and so are those of one log where one may
have followed the other, however coarse its clock. Each engine part belongs to the attempt that it fits
into best, and to none of them where it ran at quite another time.
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
#: What one clock's readings may be wrong by: an end and a duration with their milliseconds cut off.
_STEP_S = 0.002
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


def slack(edge: EdgeRecord, fine: Collection[str | None] = ()) -> float:
    """Seconds by which a record's times may be wrong on the best of clocks.

    Args:
        edge: as read, or on the engine's clock.
        fine: sources that are known to tell parts of a second: theirs are whole by chance.
    """
    return _WHOLE_SECOND_S if _read_at(edge) % 1 == 0 and edge.source not in fine else _ROUNDING_S


def misfit(part: EngineRecord, edge: EdgeRecord, fine: Collection[str | None] = ()) -> float:
    """Seconds of an engine part that lie outside of an edge record, beyond a clock's rounding."""
    before = edge.started_at - engine_start(part)
    after = part.ts - edge.ts
    if before <= _ROUNDING_S and after <= _ROUNDING_S:
        return 0.0
    rounding = max(slack(edge, fine), _part_slack(part))
    return max(0.0, before - rounding) + max(0.0, after - rounding)


def _read_at(edge: EdgeRecord) -> float:
    """Return a record's time as its own clock told it."""
    # Taking a difference off and adding it again leaves the last digits of a float wrong.
    return edge.ts if edge.skew_s is None else round(edge.ts + edge.skew_s, 6)


def _part_slack(part: EngineRecord) -> float:
    # Only the lines of vLLM's text log have whole seconds, and no durations.
    return _WHOLE_SECOND_S if part.ts % 1 == 0 and not part.is_timed else _ROUNDING_S


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
    fine = _fine_sources(attempts, edges)
    for edge in _sorted(edges, _outermost_first):
        _place_edge(attempts, edge, fine)
    if not attempts:
        return _by_overlap(known, engines)
    attempts.sort(key=lambda attempt: attempt.started_at)
    alone = [attempt for attempt in known if not attempt.edges]
    strays = _place_parts(attempts, alone, engines, apart, fine)
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


def _timed_first(part: EngineRecord) -> tuple[float, float, str]:
    start, end, rest = _by_start(part)
    return (start if part.is_timed else math.inf, end, rest)


def _by_start(part: EngineRecord) -> tuple[float, float, str]:
    return (engine_start(part), part.ts, repr(part))


def _fine_sources(attempts: Iterable[Attempt], edges: Iterable[EdgeRecord]) -> set[str | None]:
    """Find the sources that tell parts of a second: of one clock no record has whole seconds only."""
    known = (edge for attempt in attempts for edge in attempt.edges)
    return {edge.source for edge in (*known, *edges) if _read_at(edge) % 1} - {None}


def _place_edge(attempts: list[Attempt], edge: EdgeRecord, fine: Collection[str | None]) -> None:
    around = [
        (*_distances(edge, attempt.edges[0]), number)
        for number, attempt in enumerate(attempts)
        if _nest(edge, attempt.edges[0], fine) and _has_room(attempt, edge, fine)
    ]
    if not around:
        attempts.append(Attempt(edges=[edge]))
        return
    *_, home = min(around)
    insort(attempts[home].edges, edge, key=_outermost_first)


def _distances(one: EdgeRecord, other: EdgeRecord) -> tuple[float, float]:
    """Return the seconds by which neither lies within the other, and those between their starts and ends."""
    begins, ends = one.started_at - other.started_at, one.ts - other.ts
    outside = min(max(0.0, -begins) + max(0.0, ends), max(0.0, begins) + max(0.0, -ends))
    return round(outside, 3), round(abs(begins) + abs(ends), 3)


def _nest(one: EdgeRecord, other: EdgeRecord, fine: Collection[str | None]) -> bool:
    """Say whether one of the two lies within the other."""
    if _follow(one, other, fine):
        return False
    most = max(slack(one, fine), slack(other, fine))
    begins, ends = one.started_at - other.started_at, one.ts - other.ts
    return (begins >= -most and ends <= most) or (begins <= most and ends >= -most)


def _follow(one: EdgeRecord, other: EdgeRecord, fine: Collection[str | None]) -> bool:
    """Say whether one may have begun when the other was over, by the one clock of both: a retry.

    Without a duration a record is taken for a moment: a log tells of each attempt once.
    """
    if one.source is None or one.source != other.source:
        return False
    coarse = min(slack(one, fine), slack(other, fine)) == _WHOLE_SECOND_S
    step = _WHOLE_SECOND_S if coarse else _STEP_S
    # By the times as they were read: only some of a source's records may have been put on the engine's clock.
    ends, others_end = _read_at(one), _read_at(other)
    begins, others_begin = ends - (one.duration_s or 0.0), others_end - (other.duration_s or 0.0)
    return begins >= others_end - step or others_begin >= ends - step


def _has_room(attempt: Attempt, edge: EdgeRecord, fine: Collection[str | None]) -> bool:
    """Say whether an attempt's outermost record lasted for all that one log tells to have run in it in turn."""
    turns = [other.duration_s or 0.0 for other in attempt.edges if _follow(edge, other, fine)]
    if not turns:
        return True
    return sum(turns) + (edge.duration_s or 0.0) <= (attempt.edges[0].duration_s or 0.0) + _STEP_S


def _place_parts(
    attempts: Sequence[Attempt],
    alone: Collection[Attempt],
    engines: Collection[EngineRecord],
    apart: float,
    fine: Collection[str | None],
) -> set[EngineRecord]:
    """Assign engine parts to the attempts that they fit into; return those that fit into none."""
    dissolved = {part: attempt for attempt in alone for part in attempt.engines}
    placed = {part for attempt in attempts for part in attempt.engines}
    for part in _sorted({*dissolved, *engines} - placed, _timed_first):
        _best(attempts, part, fine).engines.append(part)
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


def _best(attempts: Sequence[Attempt], part: EngineRecord, fine: Collection[str | None]) -> Attempt:
    """Find the attempt that a part fits into best.

    Of those within the clocks' rounding the ones that hold it wholly are meant. Between equals the least
    served comes first, so that parts and attempts pair up by time; a line of vLLM's text log repeats what
    another part tells, and serves nobody.
    """
    if len(attempts) == 1:
        return attempts[0]
    misfits = [misfit(part, attempt.edges[0], fine) for attempt in attempts]
    least = min(misfits)
    equals = [attempt for attempt, seconds in zip(attempts, misfits, strict=True) if seconds == least]
    if len(equals) == 1:
        return equals[0]
    if not part.is_timed:
        return min(equals, key=lambda attempt: (_moment_distance(part, attempt.edges[0], fine), attempt.size))
    equals = [attempt for attempt in equals if _holds(attempt.edges[0], part, fine)] or equals
    return min(equals, key=lambda attempt: (_served(attempt), _distance(part, attempt.edges[0], fine)))


def _served(attempt: Attempt) -> int:
    return sum(part.is_timed for part in attempt.engines)


def _holds(edge: EdgeRecord, part: EngineRecord, fine: Collection[str | None]) -> bool:
    """Say whether a part lies within an edge record, as closely as that tells its time."""
    step = _STEP_S if slack(edge, fine) == _ROUNDING_S else _WHOLE_SECOND_S
    return edge.started_at - engine_start(part) <= step and part.ts - edge.ts <= step


def _distance(part: EngineRecord, edge: EdgeRecord, fine: Collection[str | None]) -> float:
    late = _cut(slack(edge, fine))
    begins, ends = edge.started_at + late - engine_start(part), edge.ts + late - part.ts
    return round(abs(begins) + abs(ends), 3)


def _moment_distance(part: EngineRecord, edge: EdgeRecord, fine: Collection[str | None]) -> float:
    """Return the seconds from what one line tells, an arrival or an end, to the same of an edge record."""
    moment = edge.started_at if part.outcome is None else edge.ts
    return round(abs(moment + _cut(slack(edge, fine)) - part.ts - _cut(_part_slack(part))), 3)


def _cut(rounding: float) -> float:
    """Seconds that a time lacks on average: what tells whole seconds has cut the rest off."""
    return 0.5 if rounding == _WHOLE_SECOND_S else 0.0


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
    for part in _sorted(engines, _timed_first):
        apart = [
            (gap, number)
            for number, attempt in enumerate(attempts)
            if (gap := _time_between(part, attempt)) is not None
        ]
        if not apart:
            attempts.append(Attempt())
        _, home = min(apart, default=(0.0, -1))
        attempts[home].engines.append(part)
    attempts.sort(key=lambda attempt: attempt.started_at)
    return _in_order(attempts)


def _in_order(attempts: list[Attempt]) -> list[Attempt]:
    for attempt in attempts:
        attempt.engines = list(_sorted(attempt.engines, _by_start))
    return attempts


def _time_between(part: EngineRecord, attempt: Attempt) -> float | None:
    """Return the seconds from a part to an attempt of other parts; `None` where they are not of one time.

    A line of the text log belongs to a timed part of its second. Two lines or two timed parts have one clock.
    """
    timed = [other for other in attempt.engines if other.is_timed]
    others = timed or attempt.engines
    rounding = _ROUNDING_S
    if part.is_timed != bool(timed):
        rounding = max(_part_slack(part), *map(_part_slack, others))
    ended_at, started_at = max(other.ts for other in others), min(map(engine_start, others))
    gap = max(0.0, engine_start(part) - ended_at, started_at - part.ts)
    return gap if gap <= rounding else None
