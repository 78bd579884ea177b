"""The engine samples of the last minutes, found by time: the state around a request."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter

from vllm_observe.model import EngineKey, EngineSample

__all__ = ["History", "Where"]

#: Which engine is meant: a key; a model's name, where its one engine is; ``None``, the only engine.
Where = EngineKey | str | None

_at = attrgetter("at")


class History:
    """The latest samples in the order of their times, bounded in seconds and in samples.

    They come from two sources: from scrapes, and from logs in which the engine itself tells how full it
    is; those may come late, and lie anywhere. The newest scrape is always kept. Times are those of the
    wall clock, since requests' logs have no other; where that clock steps back, or a log's clock is
    ahead, what then lies in the future of a scrape is dropped.
    """

    def __init__(self, *, keep: float, max_samples: int) -> None:
        self._keep = keep
        self._max_samples = max_samples
        self._samples: list[EngineSample] = []

    def __len__(self) -> int:
        return len(self._samples)

    def scraped(self, at: float, samples: Iterable[EngineSample]) -> None:
        """Add the samples of a scrape, all taken at the same time."""
        del self._samples[bisect_left(self._samples, at, key=_at) :]
        before = len(self._samples)
        self._samples += samples
        oldest = bisect_left(self._samples, at - self._keep, key=_at)
        del self._samples[: max(oldest, min(before, len(self._samples) - self._max_samples))]

    def told(self, sample: EngineSample) -> None:
        """Add what an engine told of itself in a log; where there is no room, what is older goes."""
        insort(self._samples, sample, key=_at)
        del self._samples[: max(0, len(self._samples) - self._max_samples)]

    def before(self, where: Where, when: float, *, max_age: float) -> EngineSample | None:
        """Return the newest sample at or before a time, if it is at most so old then.

        ``None`` also where several engines answer to ``where``: which of them served is not known.
        """
        found = self.between(where, when - max_age, when)
        return found[-1] if len({sample.key for sample in found}) == 1 else None

    def between(self, where: Where, start: float, end: float) -> list[EngineSample]:
        """Return the samples of every engine meant, both times included, oldest first."""
        first = bisect_left(self._samples, start, key=_at)
        last = bisect_right(self._samples, end, key=_at)
        return [sample for sample in self._samples[first:last] if _is_at(sample.key, where)]


def _is_at(key: EngineKey, where: Where) -> bool:
    return where is None or where in (key, key.model_name)
