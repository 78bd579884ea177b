"""The time that a board shows, and how finely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime

__all__ = ["Span"]

#: Seconds between two points, as Grafana rounds them.
_STEPS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True)
class Span:
    """From ``start`` to ``end``, in seconds since the Unix epoch.

    ``scrape_interval`` is Prometheus's: points closer than that would tell nothing more.
    """

    start: float
    end: float
    scrape_interval: float = 15.0

    def __str__(self) -> str:
        """Say it in this machine's time zone, which is named: a picture is looked at elsewhere, and later."""
        start, end = (
            datetime.fromtimestamp(at).astimezone().isoformat(sep=" ", timespec="seconds")
            for at in (self.start, self.end)
        )
        return f"{start} to {end}"

    def step(self, pixels: float) -> float:
        """Return the seconds between two points of a graph so wide."""
        wanted = max((self.end - self.start) / max(pixels, 1.0), self.scrape_interval)
        return next((float(step) for step in _STEPS if step >= wanted), math.ceil(wanted / 86_400) * 86_400.0)
