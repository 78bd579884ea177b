"""Stalls: an engine that has work and computes nothing, whatever its health check says."""

from __future__ import annotations

from vllm_observe.engine.sampling import work_present
from vllm_observe.model import EngineSample

__all__ = ["StallWatch"]

#: What moves whenever an engine computes.
_PROGRESS = ("prompt_tokens", "generation_tokens", "steps")


class StallWatch:
    """How long one engine of one process has had work without any progress.

    The time runs from a scrape that showed work to a later one that still does, with every known
    counter of progress equal, so that a gap between the two counts too. A sleeping engine holds its
    requests on purpose.
    """

    def __init__(self) -> None:
        self._counters: dict[str, float] = {}
        self._working = False
        self._since = 0.0
        self._flat_for: float | None = None

    def observe(self, sample: EngineSample, now: float) -> None:
        """Take the engine's sample of a good scrape at the monotonic time ``now``."""
        counters = _known_progress(sample)
        progressed = any(value != self._counters.get(name) for name, value in counters.items())
        work = False if sample.awake is False else work_present(sample)
        if progressed or not (work and self._working):
            self._since = now
        self._counters.update(counters)
        self._working = bool(work)
        self._flat_for = None if work is None or not counters else now - self._since

    def stalled(self, after: float) -> bool | None:
        """Say whether work stood still for ``after`` seconds; ``None`` where that cannot be judged."""
        return None if self._flat_for is None else self._working and self._flat_for >= after


def _known_progress(sample: EngineSample) -> dict[str, float]:
    values = ((name, getattr(sample, name)) for name in _PROGRESS)
    return {name: value for name, value in values if value is not None}
