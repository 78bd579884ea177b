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

    def begin(self, live: Live, now: float) -> None:
        """Let a request begin to wait."""
        live.held_from = self._stand(now)

    def ready(self, live: Live, now: float) -> None:
        """Let a request wait for what holds all others too, and for nothing of its own any more."""
        live.ready_from = self._stand(now)

    def of(self, live: Live, now: float) -> dict[Hold, float]:
        """Return what a request waited for until now, in seconds."""
        if live.ready_from is None:
            return {Hold.DEFERRED: now - live.queued_at}
        held = {hold: total - live.ready_from[hold] for hold, total in self._stand(now).items()}
        held[Hold.DEFERRED] = live.arrival.deferred_s
        return {hold: seconds for hold, seconds in held.items() if seconds > 0}

    def hung(self, live: Live, now: float) -> float:
        """Return for how many seconds the engine hung since a request came."""
        if live.held_from is None:  # it was refused
            return 0.0
        self._charge(now)
        return self._totals[Hold.HUNG] - live.held_from[Hold.HUNG]

    def _stand(self, now: float) -> Mapping[Hold, float]:
        """Return where the totals stand."""
        self._charge(now)
        return dict(self._totals)

    def _charge(self, now: float) -> None:
        self._totals[self._present] += now - self._charged_until
        self._charged_until = now
