"""Times of day as logs write them, as seconds since the Unix epoch."""

from __future__ import annotations

import re
from datetime import datetime

import msgspec

__all__ = ["AHEAD_S", "LATEST", "epoch"]

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")
_LEAP_SECOND = re.compile(r"(:[0-5][0-9]):60(?=[.Zz+-]|$)")

#: Seconds beyond the year 5138; a larger number counts smaller units.
LATEST = 1e11
#: How far another host's clock may be ahead of ours: more than a time zone that was taken for UTC.
AHEAD_S = 86_400.0


def epoch(value: float | str) -> float:
    """Read epoch seconds, as a number or its text, or an RFC 3339 time.

    RFC 3339 is taken with a fraction of any length, ``T``, ``t`` or a blank before the time, ``Z``,
    ``z`` or an offset with or without its colon. A time without a zone is refused: a guess would
    shift a whole log by hours and nobody would see it.

    Raises:
        ValueError: it is no such time; the message says which.
    """
    if isinstance(value, str):
        value = _parsed(value.strip())
    if not 0 <= value < float("inf"):
        raise ValueError("lies before 1970 or is not finite")
    if value > LATEST:
        raise ValueError("is no number of seconds: most likely milliseconds or smaller")
    return float(value)


def _parsed(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    leap = 0.0
    if ":60" in text:  # RFC 3339 allows a leap second, the calendar of Python has none
        text, found = _LEAP_SECOND.subn(r"\1:59", text)
        leap = float(found)
    try:
        moment = msgspec.convert(text, datetime)
        if moment.tzinfo is None:
            raise ValueError("has no time zone: end it in Z or an offset such as +01:00")
        return moment.timestamp() + leap
    except (msgspec.ValidationError, OverflowError):
        raise ValueError("is neither epoch seconds nor RFC 3339") from None
