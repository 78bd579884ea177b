"""Durations in rule files, as Prometheus reads them: ``1h30m``, the units in this order, or 0."""

from __future__ import annotations

import re

__all__ = ["wrong_duration"]

_SECONDS = {"y": 31_536_000, "w": 604_800, "d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_DURATION = re.compile("".join(f"(?:([0-9]+){unit})?" for unit in _SECONDS), re.ASCII)
#: Prometheus counts nanoseconds in 63 bits.
_MOST_S = (2**63 - 1) / 1e9
_MOST_DIGITS = 20


def wrong_duration(text: str) -> str | None:
    """Say what is wrong with a duration, or give ``None`` where Prometheus takes it."""
    if text == "0":
        return None
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return "is no duration that Prometheus reads: write it like 5m or 1h30m"
    numbers = zip(found.groups(), _SECONDS.values(), strict=True)
    if any(len(number or "") > _MOST_DIGITS for number in found.groups()) or (
        sum(int(number or 0) * seconds for number, seconds in numbers) > _MOST_S
    ):
        return "is longer than Prometheus can count: 292 years"
    return None
