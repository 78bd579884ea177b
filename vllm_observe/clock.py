"""Time, injected: production reads the system's clocks, tests turn their own."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """The two clocks a program needs, and the wait between two of its steps."""

    def wall(self) -> float:
        """Seconds since the Unix epoch: for what is compared with other hosts' times."""

    def monotonic(self) -> float:
        """Seconds that never step back: for durations and deadlines."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until ``stop`` is set or the seconds are over; say whether it is set."""


class SystemClock:
    """The operating system's clocks."""

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return time.monotonic()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until ``stop`` is set or the seconds are over; say whether it is set."""
        return stop.wait(seconds)


class ManualClock:
    """A clock that stands still until it is told to move; waiting moves it."""

    def __init__(self, wall: float = 1_790_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 0.0

    def wall(self) -> float:
        """Seconds since the Unix epoch."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._monotonic

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Move on at once; say whether ``stop`` is set."""
        self.advance(seconds)
        return stop.is_set()

    def advance(self, seconds: float) -> None:
        """Move both clocks on by so many seconds."""
        self._wall += seconds
        self._monotonic += seconds
