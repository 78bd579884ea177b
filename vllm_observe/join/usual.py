"""What is usual: the medians of each profile's latest good requests.

A median, since one request of ten minutes must not make nine minutes usual.
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
    """The medians of one profile's requests to one model; ``None`` where too few told of it."""

    duration_s: float
    completion_tokens: float | None = None
    tpot_s: float | None = None


class UsualRequests:
    """Remembers the latest requests of each profile and model.

    Args:
        remember: requests of one profile and model.
        limit: profiles and models; of those beyond it nothing is usual.
    """

    def __init__(self, *, remember: int = 301, limit: int = 256) -> None:
        self._remember = remember
        self._limit = limit
        self._known: dict[tuple[str | None, str | None], tuple[_Median, _Median, _Median]] = {}

    def observe(self, request: JoinedRequest) -> None:
        """Learn from a request, once, after it was judged by what was usual before it."""
        if request.outcome is not Outcome.OK or request.duration_s is None:
            return
        name = (request.model_name, request.profile)
        if name not in self._known and len(self._known) >= self._limit:
            return
        medians = self._known.setdefault(name, (self._median(), self._median(), self._median()))
        values = (request.duration_s, request.completion_tokens, tpot_s(request))
        for median, value in zip(medians, values, strict=True):
            if value is not None:
                median.add(value)

    def of(self, request: JoinedRequest) -> Usual | None:
        """Return what is usual for requests like this one; ``None`` where too few have been seen."""
        medians = self._known.get((request.model_name, request.profile))
        if medians is None or (duration := medians[0].value()) is None:
            return None
        return Usual(duration, medians[1].value(), medians[2].value())

    def _median(self) -> _Median:
        return _Median(self._remember)


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
