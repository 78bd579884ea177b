"""Tokens that vLLM counted and no request claims: what the request logs do not show."""

from __future__ import annotations

from collections.abc import Collection

from vllm_observe.engine.sampling import increase
from vllm_observe.model import EngineKey, EngineSample, JoinedRequest

__all__ = ["Coverage"]


class Coverage:
    """Compares the growth of the engines' token counters with what joined requests claim.

    A request claims its tokens when it closes, long after vLLM counted them. So at any time more is
    counted than claimed, and only the least difference of a whole period was certainly never
    claimed: what the requests under way hold is not taken for a gap, or at most once.

    Args:
        period: seconds, longer than requests commonly take to run and to be joined.

    Attributes:
        unattributed: tokens by kind, ``prompt`` and ``completion``; these never fall.
    """

    def __init__(self, *, period: float) -> None:
        self.unattributed = {"prompt": 0.0, "completion": 0.0}
        self._period = period
        self._ends: float | None = None
        self._last: dict[EngineKey, EngineSample] = {}
        self._open = {"prompt": 0.0, "completion": 0.0}  # counted and not yet claimed
        self._least = dict(self._open)

    def claim(self, request: JoinedRequest) -> None:
        """Take a request's tokens as accounted for."""
        self._open["prompt"] -= request.prompt_tokens or 0
        self._open["completion"] -= request.completion_tokens or 0
        self._note()

    def observe(self, samples: Collection[EngineSample], now: float) -> None:
        """Take the engines' counters as scraped at a time of a monotonic clock.

        The first sample of an engine, and the first after a restart, only begins the comparison.
        """
        for sample in samples:
            last = self._last.get(sample.key, sample)
            self._open["prompt"] += increase(last.prompt_tokens, sample.prompt_tokens) or 0.0
            self._open["completion"] += increase(last.generation_tokens, sample.generation_tokens) or 0.0
            self._last[sample.key] = sample
        if self._ends is None:
            self._ends = now + self._period
        elif now >= self._ends:
            for kind, tokens in self._least.items():
                self.unattributed[kind] = max(self.unattributed[kind], tokens)
            self._least = dict(self._open)
            self._ends = now + self._period
        self._note()

    def _note(self) -> None:
        for kind, tokens in self._open.items():
            self._least[kind] = min(self._least[kind], tokens)
