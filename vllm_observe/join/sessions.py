"""How many sessions are active, within a bound: no session id ever becomes a label."""

from __future__ import annotations

__all__ = ["Sessions"]


class Sessions:
    """The sessions whose latest requests ended in the last minutes.

    Args:
        active_for: seconds for which a request keeps its session active.
        limit: sessions to remember; beyond it the one that was silent the longest is forgotten.

    Attributes:
        overflowed: active sessions that were forgotten for the bound; the count is too low by these.
    """

    def __init__(self, *, active_for: float, limit: int) -> None:
        self.overflowed = 0
        self._active_for = active_for
        self._limit = limit
        self._ended: dict[str, float] = {}  # in the order of the latest mention

    def ended(self, session_id: str | None, at: float, now: float) -> None:
        """Take note of a request's end.

        Args:
            session_id: the request's session; without one it is no session's.
            at: when it ended, in seconds since the Unix epoch.
            now: the same clock's time. An end in the future, by another host's clock, counts as now.
        """
        if session_id is None:
            return
        at = min(at, now)
        self._ended[session_id] = max(at, self._ended.pop(session_id, at))
        if len(self._ended) > self._limit:
            oldest = self._ended.pop(next(iter(self._ended)))
            self.overflowed += self._is_active(oldest, now)

    def active(self, now: float) -> int:
        """Return how many sessions are active, and forget the others."""
        self._ended = {name: at for name, at in self._ended.items() if self._is_active(at, now)}
        return len(self._ended)

    def _is_active(self, at: float, now: float) -> bool:
        return at > now - self._active_for
