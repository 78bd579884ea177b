"""The engine samples of the last minutes, found by time: the state around a request."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from operator import itemgetter

from vllm_observe.model import EngineKey, EngineSample

__all__ = ["History", "Where"]

#: Which engine is meant: a key; a model's name, where its one engine is; ``None``, the only engine.
Where = EngineKey | str | None

_at = itemgetter(0)


class History:
    """The samples of the latest scrapes, bounded in seconds and in samples.

    The newest scrape is always kept. Times are those of the wall clock, since requests' logs have
    no other; where that clock steps back, what then lies in the future is dropped.
    """

    def __init__(self, *, keep: float, max_samples: int) -> None:
        self._keep = keep
        self._max_samples = max_samples
        self._scrapes: list[tuple[float, tuple[EngineSample, ...]]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, at: float, samples: Collection[EngineSample]) -> None:
        """Add the samples of a scrape, all taken at the same time."""
        self._drop(bisect_left(self._scrapes, at, key=_at), len(self._scrapes))
        self._scrapes.append((at, tuple(samples)))
        self._size += len(samples)
        self._drop(0, bisect_left(self._scrapes, at - self._keep, key=_at))
        while self._size > self._max_samples and len(self._scrapes) > 1:
            self._drop(0, 1)

    def _drop(self, first: int, end: int) -> None:
        self._size -= sum(len(samples) for _, samples in self._scrapes[first:end])
        del self._scrapes[first:end]

    def before(self, where: Where, when: float, *, max_age: float) -> EngineSample | None:
        """Return the newest sample at or before a time, if it is at most so old then.

        ``None`` also where several engines answer to ``where``: which of them served is not known.
        """
        for at, samples in reversed(self._scrapes[: bisect_right(self._scrapes, when, key=_at)]):
            if at < when - max_age:
                break
            found = [sample for sample in samples if _is_at(sample.key, where)]
            if found:
                return found[0] if len(found) == 1 else None
        return None

    def between(self, where: Where, start: float, end: float) -> list[EngineSample]:
        """Return the samples of every engine meant, both times included, oldest first."""
        first = bisect_left(self._scrapes, start, key=_at)
        last = bisect_right(self._scrapes, end, key=_at)
        return [s for _, samples in self._scrapes[first:last] for s in samples if _is_at(s.key, where)]


def _is_at(key: EngineKey, where: Where) -> bool:
    return where is None or where in (key, key.model_name)
