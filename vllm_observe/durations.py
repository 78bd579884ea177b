"""Durations as people write them: ``5``, ``5s``, ``250ms``, ``10m``."""

from __future__ import annotations

import re

__all__ = ["parse_duration"]

_DURATION = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,12})?)\s*(?P<unit>ms|s|m|h|d)?", re.ASCII)
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(text: str) -> float:
    """Return the seconds that a duration means; a number alone is seconds.

    Raises:
        ValueError: it is no duration; the message is fit for whoever wrote it.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be a duration such as 5, 5s, 250ms or 10m")
    return float(match["number"]) * _UNIT_SECONDS[match["unit"]]
