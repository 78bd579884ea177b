"""Unattributed tokens: those that vLLM counted and no request in the logs accounts for."""

from __future__ import annotations

import math
from collections.abc import Collection

from vllm_observe.engine.sampling import increase
from vllm_observe.model import Claimed, EngineKey, EngineSample, JoinedRequest

__all__ = ["Coverage", "accounted"]

_COUNTERS = {"prompt": "prompt_tokens", "completion": "generation_tokens"}
_NONE = dict.fromkeys(_COUNTERS, 0.0)


class Coverage:
    """Compares the growth of the engines' token counters with what joined requests claim.

    A request claims its tokens when it closes, long after vLLM counted them. So at any time more is
    counted than claimed, and only the least difference of a whole period was certainly never
    claimed: the tokens of requests in progress are not taken for a gap, or at most once.

    The comparison begins with the first sample, and anew with the first after a restart, since what
    was counted before it is not known. Requests that ended before it claim nothing, therefore.

    Args:
        period: seconds, longer than requests commonly take to run and to be joined.

    Attributes:
        unattributed: tokens by kind, ``prompt`` and ``completion``; these never fall.
    """

    def __init__(self, *, period: float) -> None:
        self.unattributed = dict(_NONE)
        self._period = period
        self._begin((), 0.0)

    def _begin(self, samples: Collection[EngineSample], now: float) -> None:
        self._since = min((sample.at for sample in samples), default=math.inf)
        self._ends = now + self._period
        self._last: dict[EngineKey, EngineSample] = {}
        self._told = dict(self.unattributed)  # of the comparisons before this one
        self._open = dict(_NONE)  # counted and not yet claimed
        self._least = dict(_NONE)

    def claim(self, request: JoinedRequest) -> None:
        """Take a request's tokens as accounted for; of one that amends another, what it adds."""
        if request.ended_at < self._since:
            return
        accounts = accounted(request)
        self._open["prompt"] -= accounts.prompt - request.claimed.prompt
        self._open["completion"] -= accounts.completion - request.claimed.completion
        self._note()

    def observe(self, samples: Collection[EngineSample], now: float) -> None:
        """Take the engines' counters as scraped at a time of a monotonic clock.

        The first sample of an engine only begins its comparison.
        """
        if not self._last or any(_fell(self._last.get(sample.key, sample), sample) for sample in samples):
            self._begin(samples, now)
        for sample in samples:
            last = self._last.get(sample.key, sample)
            for kind, counter in _COUNTERS.items():
                self._open[kind] += increase(getattr(last, counter), getattr(sample, counter)) or 0.0
            self._last[sample.key] = sample
        if now >= self._ends:
            for kind, tokens in self._least.items():
                self.unattributed[kind] = max(self.unattributed[kind], self._told[kind] + tokens)
            self._least = dict(self._open)
            self._ends = now + self._period
        self._note()

    def _note(self) -> None:
        for kind, tokens in self._open.items():
            self._least[kind] = min(self._least[kind], tokens)


def accounted(request: JoinedRequest) -> Claimed:
    """Count the tokens that vLLM counted for a request, as far as its records tell.

    vLLM counts the prompt again for each of several answers, and for each try of a proxy; the client is
    told of it once.
    """
    parts = [part for part in request.engines if part.is_timed] or request.engines
    return Claimed(
        max(request.prompt_tokens or 0, sum([part.prompt_tokens or 0 for part in parts])),
        max(request.completion_tokens or 0, sum([part.completion_tokens or 0 for part in parts])),
    )


def _fell(before: EngineSample, now: EngineSample) -> bool:
    """Say whether a counter is lower than it was: another process counts."""
    values = ((getattr(before, counter), getattr(now, counter)) for counter in _COUNTERS.values())
    return any(None not in pair and pair[1] < pair[0] for pair in values)
