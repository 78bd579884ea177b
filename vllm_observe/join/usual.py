"""What is usual: the medians of each profile's good requests.

A median, since one request of ten minutes must not make nine minutes usual. And the lesser of two: that
of the latest requests, which soon learns that a model has become faster, and that of a sample reaching
ten times as far back, so that a slow hour does not become usual while it lasts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import NamedTuple

from vllm_observe.join.targets import tpot_s
from vllm_observe.model import JoinedRequest, Outcome
from vllm_observe.thresholds import USUAL_MIN_REQUESTS

__all__ = ["Usual", "UsualRequests"]


class Usual(NamedTuple):
    """The medians of one profile's requests to one model; ``None`` where too few had the value."""

    duration_s: float
    completion_tokens: float | None = None
    tpot_s: float | None = None


#: One request in so many goes into the sample, which therefore reaches back that many times as far.
_SAMPLE = 10


class UsualRequests:
    """Remembers the latest requests of each profile and model.

    Args:
        remember: requests of one profile and model, and again as many of a sample of them.
        limit: profiles and models; of those beyond it nothing is usual.
    """

    def __init__(self, *, remember: int = 301, limit: int = 256) -> None:
        self._remember = remember
        self._limit = limit
        self._known: dict[tuple[str | None, str | None], tuple[_Usual, _Usual, _Usual]] = {}

    def observe(self, request: JoinedRequest) -> None:
        """Learn from a request, once, after it was judged by what was usual before it."""
        if request.outcome is not Outcome.OK or request.duration_s is None:
            return
        name = (request.model_name, request.profile)
        if name not in self._known and len(self._known) >= self._limit:
            return
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = (self._none(), self._none(), self._none())
        values = (request.duration_s, request.completion_tokens, tpot_s(request))
        for usual, value in zip(known, values, strict=True):
            if value is not None:
                usual.add(value)

    def of(self, request: JoinedRequest) -> Usual | None:
        """Return what is usual for requests like this one; ``None`` where too few have been seen."""
        known = self._known.get((request.model_name, request.profile))
        if known is None or (duration := known[0].value()) is None:
            return None
        return Usual(duration, known[1].value(), known[2].value())

    def _none(self) -> _Usual:
        return _Usual(self._remember)


class _Usual:
    """The lesser median of the latest values and of a sample that reaches further back."""

    def __init__(self, remember: int) -> None:
        self._latest, self._sample = _Median(remember), _Median(remember)
        self._count = 0

    def add(self, value: float) -> None:
        self._latest.add(value)
        if self._count % _SAMPLE == 0:
            self._sample.add(value)
        self._count += 1

    def value(self) -> float | None:
        found = [value for median in (self._latest, self._sample) if (value := median.value()) is not None]
        return min(found, default=None)


class _Median:
    """The running median of the latest values."""

    def __init__(self, remember: int) -> None:
        self._latest: deque[float] = deque()
        self._sorted: list[float] = []
        self._remember = remember

    def add(self, value: float) -> None:
        if len(self._latest) == self._remember:
            del self._sorted[bisect_left(self._sorted, self._latest.popleft())]
        self._latest.append(value)
        insort(self._sorted, value)

    def value(self) -> float | None:
        if len(self._sorted) < USUAL_MIN_REQUESTS:
            return None
        return self._sorted[len(self._sorted) // 2]
