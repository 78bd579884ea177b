"""How far the clocks of two hosts are apart, learned from the requests that both of them timed.

An engine's part of a request lies within what its client waited for. So each request that both sides
told of bounds the difference between their clocks from below and from above, as closely as it spent
little time outside the engine. Most of the latest requests must agree before a clock counts as known,
and zero is believed for as long as it agrees: what is corrected is an error, not a rounding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from vllm_observe.join.attempts import UNKNOWN_CLOCKS_S, engine_start, misfit, slack
from vllm_observe.model import EdgeRecord, EngineRecord, Outcome

__all__ = ["ENOUGH", "Skews", "shifted"]

#: Requests from which a difference is known, and the latest that speak of it.
ENOUGH = 12
_REMEMBER = 48
#: The share of them that must agree.
_AGREE = 0.8
#: A difference is worked out anew after so many more.
_EVERY = 12

_Sources = tuple[str | None, str | None]


def shifted(edge: EdgeRecord, seconds: float) -> EdgeRecord:
    """Return an edge record of a clock that is so many seconds ahead of the engine's, on the engine's."""
    return msgspec.structs.replace(edge, ts=edge.ts - seconds, skew_s=seconds)


class Skews:
    """What is known of each pair of an edge record's source and an engine part's.

    Args:
        limit: pairs to learn of; the clocks of others stay unknown.
    """

    def __init__(self, *, limit: int = 64) -> None:
        self._limit = limit
        self._pairs: dict[_Sources, _Pair] = {}

    def compare(self, edges: Sequence[EdgeRecord], engines: Sequence[EngineRecord]) -> None:
        """Learn from one id's records, where its one timed engine part can only be that of each source's one."""
        timed = [part for part in engines if part.is_timed]
        if len(timed) != 1:
            return
        sources = [edge.source for edge in edges]
        for edge in edges:
            if sources.count(edge.source) == 1:
                self.observe(edge, timed[0])

    def on_engine_time(
        self, edges: Sequence[EdgeRecord], engines: Sequence[EngineRecord]
    ) -> tuple[Sequence[EdgeRecord], float]:
        """Return one id's edge records on its engine's clock, and the seconds that the two may seem apart."""
        engine = engines[0].source if engines else None
        corrected, apart = [], 0.0 if edges else UNKNOWN_CLOCKS_S
        for edge in edges:
            ahead = self.of(edge.source, engine) if engines else None
            if ahead is None:
                apart = UNKNOWN_CLOCKS_S
                ahead = self.known().get(edge.source)
            corrected.append(_better(edge, shifted(edge, ahead), engines) if ahead else edge)
        return corrected, apart

    def observe(self, edge: EdgeRecord, part: EngineRecord) -> None:
        """Learn from both sides' records of one request, as they were read."""
        if edge.outcome is not Outcome.OK or edge.duration_s is None:
            return  # an engine may go on after a client that did not wait for it
        started_at = engine_start(part)
        if started_at == part.ts:
            return
        sources = (edge.source, part.source)
        pair = self._pairs.get(sources)
        if pair is None:
            if len(self._pairs) >= self._limit:
                return
            pair = self._pairs[sources] = _Pair()
        rounding = slack(edge)
        pair.add(edge.started_at - started_at - rounding, edge.ts - part.ts + rounding)

    def of(self, edge_source: str | None, engine_source: str | None) -> float | None:
        """Return the seconds that an edge record's clock is ahead of an engine's; ``None``: not known."""
        pair = self._pairs.get((edge_source, engine_source))
        return None if pair is None else pair.ahead

    def known(self) -> Mapping[str | None, float]:
        """Return the seconds that each source of edge records is ahead: the median over the engines."""
        found: dict[str | None, list[float]] = {}
        for (edge_source, _), pair in self._pairs.items():
            if pair.ahead is not None:
                found.setdefault(edge_source, []).append(pair.ahead)
        return {source: median(seconds) for source, seconds in found.items()}


def _better(read: EdgeRecord, corrected: EdgeRecord, engines: Sequence[EngineRecord]) -> EdgeRecord:
    """Return the corrected record, unless the engine's parts fit what was read better: a clock may have been set."""
    if engines and _misfit(read, engines) < _misfit(corrected, engines):
        return read
    return corrected


def _misfit(edge: EdgeRecord, engines: Sequence[EngineRecord]) -> float:
    return min(misfit(part, edge) for part in engines)


class _Pair:
    """The latest bounds of one difference, and what follows from them."""

    def __init__(self) -> None:
        self.ahead: float | None = None
        self._bounds: deque[tuple[float, float]] = deque(maxlen=_REMEMBER)
        self._until_next = ENOUGH

    def add(self, least: float, most: float) -> None:
        self._bounds.append((least, most))
        self._until_next -= 1
        if not self._until_next:
            self._until_next = _EVERY
            self.ahead = self._estimate()

    def _estimate(self) -> float | None:
        """Return zero, or the middle of what most bounds leave; ``None`` where too many disagree."""
        least, most = (sorted(bounds) for bounds in zip(*self._bounds, strict=True))
        quarter = len(least) // 4
        middle = (least[-1 - quarter] + most[quarter]) / 2
        return next((ahead for ahead in (0.0, middle) if self._agree(ahead)), None)

    def _agree(self, ahead: float) -> bool:
        agreeing = sum(least <= ahead <= most for least, most in self._bounds)
        return agreeing >= _AGREE * len(self._bounds)
