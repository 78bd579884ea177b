"""The limits of a server's queue, which its HTTP side keeps over all ranks together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vllm_observe.sim.engine import Engine
from vllm_observe.sim.scheduler import EngineLimits

__all__ = ["Admission"]


class Admission:
    """Lets requests in or turns them away, as vLLM does from 0.29 on where it is given a limit.

    Attributes:
        rejections: requests turned away, by the limit.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self.rejections: Counter[str] = Counter()

    def refuses(self, engines: Sequence[Engine], requests: int) -> bool:
        """Say whether requests that come as one are turned away, and count it as one rejection."""
        reqs, tokens = self._limits.max_num_queued_reqs, self._limits.max_num_queued_tokens
        if reqs is not None and sum(engine.unfinished for engine in engines) + requests > reqs:
            self.rejections["max_num_queued_reqs"] += 1
            return True
        if tokens is not None and sum(engine.queued_tokens for engine in engines) >= tokens:
            self.rejections["max_num_queued_tokens"] += 1
            return True
        return False
