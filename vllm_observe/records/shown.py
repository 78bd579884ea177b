"""Show a bad line in our own log without what it says.

Nobody knows what a line that is no record holds: a prompt, an answer, a key. So only its shape is
shown: letters become ``x``, digits ``9``. That tells a time without a zone from one in milliseconds,
and an access line from a stack trace. Kept are the names of JSON fields and the words that loggers
write. The place is told beside it, for who may read the log itself.
"""

from __future__ import annotations

import re

from vllm_observe.clock import Clock

__all__ = ["RateLimit", "show"]

_SHOWN_BYTES = 120

_WORDS = "DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|Traceback|GET|POST|HTTP|true|false|null|NaN|Infinity"
_TEXT = rf"""(?P<kept>\b(?:{_WORDS})\b)|(?P<letter>[^\W\d_])|(?P<digit>\d)|(?P<control>[\x00-\x1f\x7f])
|(?P<other>[^\x00-\x7f])"""
#: In an object, what stands in quotes before a colon is a name; in any other text it may be anything.
_OBJECT = rf"""(?P<name>[{{,]\s*"[A-Za-z_.-]{{1,32}}"\s*:)|{_TEXT}"""
_PARTS = {of_object: re.compile(_OBJECT if of_object else _TEXT, re.VERBOSE) for of_object in (True, False)}


def show(line: bytes) -> str:
    """Give the shape of a line's first 120 bytes, in printable ASCII."""
    text = line[:_SHOWN_BYTES].decode("utf-8", "replace")
    shape = _PARTS[text.startswith("{")].sub(_masked, text)
    return shape + "..." if len(line) > _SHOWN_BYTES else shape


def _masked(found: re.Match[str]) -> str:
    text = found[0]
    masks = {"letter": "x", "digit": "9", "other": "?", "control": f"\\x{ord(text[0]):02x}"}
    return masks.get(found.lastgroup or "", text)


class RateLimit:
    """Lets a few events through in a period, and counts those that it holds back."""

    def __init__(self, clock: Clock, *, most: int = 5, period: float = 60.0) -> None:
        self._clock = clock
        self._most = most
        self._period = period
        self._began = clock.monotonic()
        self._passed = 0
        self._held = 0

    def passes(self) -> bool:
        """Say whether one more event may go through now."""
        if self._clock.monotonic() - self._began >= self._period:
            self._began = self._clock.monotonic()
            self._passed = 0
        if self._passed >= self._most:
            self._held += 1
            return False
        self._passed += 1
        return True

    def held_back(self) -> int:
        """Give the number held back, once a period is over; then count anew."""
        if not self._held or self._clock.monotonic() - self._began < self._period:
            return 0
        held, self._held = self._held, 0
        return held
