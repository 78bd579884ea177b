"""What those that wait are waiting for: charged once for all of them, as time passes."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_observe.sim.requests import Hold, Live

__all__ = ["Holds"]


class Holds:
    """The time that each reason held an engine's queue, since its start.

    The first that waits holds back all behind it, so one reason holds them all at any time; what held
    one request is how much the totals grew while it waited.
    """

    def __init__(self, now: float) -> None:
        self._totals = dict.fromkeys(Hold, 0.0)
        self._present = Hold.STEP
        self._charged_until = now

    def change(self, hold: Hold, now: float) -> None:
        """Let another reason hold the queue from now on."""
        self._charge(now)
        self._present = hold

    def begin(self, now: float) -> Mapping[Hold, float]:
        """Return where the totals stand when a request begins to wait."""
        self._charge(now)
        return dict(self._totals)

    def of(self, live: Live, now: float) -> dict[Hold, float]:
        """Return what a request waited for until now, in seconds."""
        self._charge(now)
        waited = now - live.queued_at
        if live.arrival.deferred_s > 0:  # after that it had the first turn but for the present reason
            deferred = min(waited, live.arrival.deferred_s)
            return {Hold.DEFERRED: deferred, self._present: waited - deferred}
        held = {hold: total - live.held_from[hold] for hold, total in self._totals.items()}
        return {hold: seconds for hold, seconds in held.items() if seconds > 0}

    def _charge(self, now: float) -> None:
        self._totals[self._present] += now - self._charged_until
        self._charged_until = now
