"""Whether the request logs speak of the requests that vLLM ends."""

from __future__ import annotations

import math
from collections.abc import Iterable

from vllm_observe.clock import Clock
from vllm_observe.model import EngineKey, EngineSample

__all__ = ["Silence"]


class Silence:
    """Begins with a scrape that saw requests end while no line came, and ends with the next line.

    That no line comes while no request ends is no silence: nobody has anything to say.

    Args:
        clock: tells the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = 0
        self._heard = False  # whether a line came since the last scrape
        self._finished: dict[EngineKey, float] = {}
        self._since: float | None = None

    def read(self, lines: int) -> None:
        """Note how many lines were read so far."""
        if lines != self._lines:
            self._lines, self._heard, self._since = lines, True, None

    def scraped(self, samples: Iterable[EngineSample]) -> None:
        """Note what the engines have counted, after a successful scrape."""
        finished = {sample.key: sample.finished for sample in samples if sample.finished is not None}
        # Of an engine that was not there before, nobody knows when its requests ended.
        ended = any(count > self._finished.get(key, math.inf) for key, count in finished.items())
        if ended and not self._heard and self._since is None:
            self._since = self._clock.monotonic()
        self._finished, self._heard = finished, False

    @property
    def seconds(self) -> float:
        """For how long it has lasted; 0 where there is none."""
        return 0.0 if self._since is None else self._clock.monotonic() - self._since
