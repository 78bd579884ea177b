"""Questions as SQL: which rows a filter selects, by which index, and where a page begins."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from vllm_observe.errors import CursorError
from vllm_observe.model import Outcome
from vllm_observe.store.protocol import MOST_PER_PAGE, RequestFilter

__all__ = ["CURSOR", "Selection", "per_page", "read_cursor", "select", "write_cursor"]

# The conditions by equality and the index of each, the most selective first: without statistics, SQLite
# would choose any.
_EQUAL = {
    "session_id": "by_session",
    "cause": "by_cause",
    "outcome": "by_outcome",
    "client": "by_client",
    "profile": "by_profile",
    "model": "by_model",
}
#: A cursor: a time, and what follows it in its order.
CURSOR = r"[0-9a-f]{16}([0-9a-f]{2})*"
_TIME = struct.Struct(">d")

_BOUNDS = {"slower_than": "duration_s > ?", "since": "ended_at >= ?", "until": "ended_at < ?"}


class Selection(NamedTuple):
    """The rows that a filter selects."""

    by: str  # the index
    condition: str
    values: tuple[str | float, ...]


def select(where: RequestFilter) -> Selection:
    """Turn a filter into a condition on the table ``request``."""
    terms: dict[str, str | float] = {}
    index = None
    for name, by in _EQUAL.items():
        value = getattr(where, name)
        if value is None:
            continue
        terms[f"{name} = ?"] = str.__str__(value).encode("utf-8", "replace").decode()
        if value is not Outcome.OK:  # most requests are: any other condition is more selective
            index = index or by
    for name, term in _BOUNDS.items():
        value = getattr(where, name)
        if value is not None:
            terms[term] = value
    return Selection(index or "by_end", " AND ".join(terms) or "1", tuple(terms.values()))


def per_page(limit: int) -> int:
    """Return how many a page holds that was asked for so many."""
    return max(1, min(limit, MOST_PER_PAGE))


def write_cursor(ended_at: float, last: bytes) -> str:
    """Name the place behind a page's last entry, in characters that are safe in a URL.

    Args:
        ended_at: when that entry ended, in seconds since the epoch.
        last: what distinguishes it from others that ended at the same time.
    """
    return (_TIME.pack(ended_at) + last).hex()


def read_cursor(cursor: str) -> tuple[float, bytes]:
    """Find the place that a cursor names: whatever :data:`CURSOR` matches names one.

    Raises:
        CursorError: it names none.
    """
    if re.fullmatch(CURSOR, cursor) is None:
        raise CursorError("cursor: no page gave this one; begin without a cursor")
    place = bytes.fromhex(cursor)
    (ended_at,) = _TIME.unpack_from(place)
    return ended_at, place[_TIME.size :]
