"""Those that wait, in the order in which they are admitted."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from vllm_observe.sim.requests import Live, Stage

__all__ = ["WaitingQueue"]

_Turn = tuple[int, int]


class WaitingQueue:
    """First come, first served; or the lower priority first, and of equals the one that came first.

    Who was preempted goes to the front. Who is deferred keeps its turn, but others pass until then.

    Args:
        by_priority: whether priorities count.
    """

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._ready: list[tuple[_Turn, Live]] = []
        self._deferred: list[tuple[float, _Turn, Live]] = []
        self._behind = count(1)
        self._in_front = count(-1, -1)
        self._size = 0
        self._deferred_size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def deferred(self) -> int:
        """How many of them wait for something else than capacity."""
        return self._deferred_size

    @property
    def next_ready_at(self) -> float | None:
        """When the next of those that are deferred can be admitted."""
        while self._deferred and not _waits(self._deferred[0][2], self._deferred[0][1]):
            heappop(self._deferred)
        return self._deferred[0][0] if self._deferred else None

    def add(self, live: Live, ready_at: float) -> None:
        """Take a request that arrived; it can be admitted from a time on."""
        live.turn = (self._priority(live), next(self._behind))
        self._size += 1
        if ready_at > live.queued_at:
            self._deferred_size += 1
            heappush(self._deferred, (ready_at, live.turn, live))
        else:
            heappush(self._ready, (live.turn, live))

    def put_back(self, live: Live) -> None:
        """Take a request that was preempted: before all others, or before its equals."""
        live.turn = (self._priority(live), next(self._in_front))
        self._size += 1
        heappush(self._ready, (live.turn, live))

    def head(self, now: float) -> Live | None:
        """Return the next to be admitted."""
        while (ready_at := self.next_ready_at) is not None and ready_at <= now:
            _, turn, live = heappop(self._deferred)
            self._deferred_size -= 1
            heappush(self._ready, (turn, live))
        while self._ready and not _waits(self._ready[0][1], self._ready[0][0]):
            heappop(self._ready)
        return self._ready[0][1] if self._ready else None

    def pop(self) -> None:
        """Take away the head."""
        heappop(self._ready)
        self._size -= 1

    def drop(self, live: Live) -> None:
        """Forget a request that will not be admitted any more; its stage says so too."""
        self._size -= 1
        self._deferred_size -= any(other is live for _, _, other in self._deferred)

    def _priority(self, live: Live) -> int:
        return live.arrival.priority if self._by_priority else 0


def _waits(live: Live, turn: _Turn) -> bool:
    """Say whether an entry still stands: its request may have left, or have been given another turn."""
    return live.stage is Stage.WAITING and live.turn == turn
