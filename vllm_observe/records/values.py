"""One value of a line, narrowed to what a record holds: ``convert(value, field)``.

Every converter takes a value that is there, and gives ``None`` where it says "not known": an empty
text, or the ``-`` of an access log. Numbers may come as their text. What cannot be taken raises
:class:`RecordError` with the field's name and without the value, which may be anybody's data.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from typing import Any

from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.plugin.names import bounded
from vllm_observe.records.times import AHEAD_S, LATEST, epoch

__all__ = [
    "LONGEST_S",
    "MOST",
    "bad",
    "check_clock",
    "count",
    "error_code",
    "flag",
    "identity",
    "level",
    "limit",
    "moment",
    "number",
    "path",
    "ratio",
    "seconds",
    "status",
    "text",
    "trace_id",
]

_ABSENT = frozenset(("", "-", "None", "null"))
_NO_ERROR = frozenset(("", "-", "none", "null", "false", "0"))
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?")

#: No request takes a day; a larger duration counts milliseconds, or began at a clock that was unset.
LONGEST_S = 86_400.0
#: More tokens, requests or blocks than any engine counts in its life.
MOST = 10**15

_STATUS_FROM, _STATUS_TO = 100, 599

_HOST = re.compile(r"[a-z]+://[^/?]*")
_CODE = re.compile(r"[A-Za-z0-9_.:-]+")
_CODE_CHARACTERS = 64
_TRACE_ID = re.compile(r"(?:[0-9a-fA-F]{2}-)?([0-9a-fA-F]{32})(?:-[0-9a-fA-F]{16}-[0-9a-fA-F]{2})?")


def bad(field: str, why: str) -> RecordError:
    """Make the error for a field that cannot be taken."""
    return RecordError(UnparsedReason.BAD_FIELD, f"{field} {why}")


def moment(value: Any, field: str) -> float | None:
    """Take a time of day: epoch seconds or RFC 3339."""
    if type(value) is float and 0 <= value <= LATEST:
        return value  # how a well-written line has it
    if isinstance(value, str) and value in _ABSENT:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise bad(field, "is no time")
    try:
        return epoch(value)
    except ValueError as error:
        raise bad(field, str(error)) from None


def check_clock(ts: float, now: float) -> None:
    """Refuse a time that no clock of a host at work shows: it would be the latest of all for years.

    Args:
        ts: the time of a record.
        now: the time of this host. Clocks that are less than a day apart are the join's to compare.

    Raises:
        RecordError: it lies ahead by more than that.
    """
    if ts > now + AHEAD_S:
        raise bad("ts", "lies over a day ahead of this host's clock")


def number(value: Any, field: str) -> float | int | None:
    """Take a number, or its text. It may be NaN or infinite."""
    if isinstance(value, str):
        word = value.strip()
        if word in _ABSENT:
            return None
        if not _NUMBER.fullmatch(word):
            raise bad(field, "is no number")
        value = float(word)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(field, "is no number")
    return value


def seconds(value: Any, field: str) -> float | None:
    """Take a duration. One that cannot be is not known: whoever measured it may be right in all else."""
    taken = number(value, field)
    return float(taken) if taken is not None and 0 <= taken <= LONGEST_S else None


def count(value: Any, field: str) -> int | None:
    """Take a whole amount: tokens, requests."""
    taken = number(value, field)
    if taken is None:
        return None
    if not 0 <= taken <= MOST or taken != int(taken):
        raise bad(field, "is no whole number from 0 up")
    return int(taken)


def limit(value: Any, field: str) -> int | None:
    """Take an amount that an engine may use at most: one at least."""
    taken = count(value, field)
    if taken == 0:
        raise bad(field, "is 0, and no engine has such a limit")
    return taken


def level(value: Any, field: str) -> float | None:
    """Take a gauge or a total, from 0 up."""
    taken = number(value, field)
    if taken is None:
        return None
    if not 0 <= taken <= MOST:
        raise bad(field, "is negative or too large")
    return float(taken)


def ratio(value: Any, field: str) -> float | None:
    """Take a share, 0 to 1."""
    taken = level(value, field)
    if taken is not None and taken > 1:
        raise bad(field, "is over 1: shares are ratios, not per cent")
    return taken


def status(value: Any, field: str) -> int | None:
    """Take an HTTP status; 0 is how nginx and Envoy write that there was no answer."""
    taken = count(value, field)
    if taken is not None and taken != 0 and not _STATUS_FROM <= taken <= _STATUS_TO:
        raise bad(field, "is no HTTP status")
    return taken


def flag(value: Any, field: str) -> bool | None:
    """Take a boolean, also as the text or the number that stands for one."""
    word = _written(value, field).strip().lower()
    if word in ("true", "1"):
        return True
    if word in ("false", "0"):
        return False
    if word in ("", "-", "none", "null"):
        return None
    raise bad(field, "is neither true nor false")


def text(value: Any, field: str) -> str | None:
    """Take a name or an id; numbers and booleans become what JSON writes for them."""
    taken = (value if type(value) is str else _written(value, field)).strip(" \t")
    if taken in _ABSENT:
        return None
    return bounded(taken)


def identity(value: Any, field: str) -> str | None:
    """Take a request id: a text, or an integer that stands for one.

    vLLM reads a header as one character a byte, and what sent it wrote UTF-8: both are the same id.
    """
    if isinstance(value, float | bool):
        raise bad(field, "is no text")
    taken = text(value, field)
    if taken is not None and not taken.isascii():
        with contextlib.suppress(UnicodeError):
            while (sent := taken.encode("latin-1").decode()) != taken:
                taken = sent
    return taken


def _written(value: Any, field: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and -math.inf < value < math.inf:
        return str(value)
    raise bad(field, "is no text")


def path(value: Any, field: str) -> str | None:
    """Take an HTTP path. Host and query are left out: passwords, keys and prompts travel there."""
    return text(_HOST.sub("", _written(value, field)).partition("?")[0], field)


def trace_id(value: Any, field: str) -> str | None:
    """Take a W3C trace id, alone or in its ``traceparent``; anything else is not one, so not known."""
    found = _TRACE_ID.fullmatch(value if type(value) is str else _written(value, field))
    return found[1].lower() if found else None


def error_code(value: Any, field: str) -> str | None:
    """Take the type or the code of an error, never its message: that may quote a prompt.

    An object, as in an OpenAI error answer, speaks by its ``type`` or ``code``; one that says nothing
    is no error. Whatever does not look like a code becomes ``error``.
    """
    said = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else (value,)
    if not any(said):
        return None
    if isinstance(value, Mapping):
        named = next((value[key] for key in ("type", "code") if value.get(key)), "error")
        return error_code(named, field) if not isinstance(named, Mapping) else "error"
    if isinstance(value, str | int) and not isinstance(value, bool):
        word = _written(value, field).strip()
        if word.lower() in _NO_ERROR:
            return None
        return word[:_CODE_CHARACTERS] if _CODE.fullmatch(word) else "error"
    return "error"
