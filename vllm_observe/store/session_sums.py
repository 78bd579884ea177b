"""Sessions, summed up from their requests' rows."""

from __future__ import annotations

import sqlite3
from typing import Any

from vllm_observe.model import Cause, Outcome
from vllm_observe.store.protocol import SessionSummary, SlowestRequest
from vllm_observe.store.queries import Selection
from vllm_observe.store.rows import read_request

__all__ = ["latest_sessions", "sum_up"]

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
# All sums in one pass over the index. SQLite gives the ``seq`` of the row that has the one ``max()``. Each
# outcome is counted by itself, since GROUP BY would sort the requests first. total(), not sum(): a sum of
# integers that is too large would be an error.
_SUMS = ", ".join(
    [
        "count(*), count(cause), max(duration_s), seq",
        *(f"count(CASE outcome WHEN '{outcome.value}' THEN 1 END)" for outcome in Outcome),
        *(f"count(CASE cause WHEN '{cause.value}' THEN 1 END)" for cause in Cause),
        *(f"total({name}), count({name})" for name in _TOKENS),
    ]
)
#: Requests that are looked at, the newest first, until enough sessions have shown: some 20 ms.
_MOST_WALKED = 20_000

#: A session's last request's end and its id: its place in the list.
_Place = tuple[float, str]


def latest_sessions(
    connection: sqlite3.Connection, chosen: Selection, before: _Place | None, most: int
) -> list[str]:
    """List sessions, the most recently active first.

    Args:
        connection: to the store.
        chosen: selects the requests.
        before: the place of the last session of the page before.
        most: how many at most.
    """
    found = _walk(connection, chosen, before, most)
    if found is None:
        found = _group(connection, chosen, before, most)
    return [session_id for _, session_id in sorted(found, reverse=True)[:most]]


def _walk(
    connection: sqlite3.Connection, chosen: Selection, before: _Place | None, most: int
) -> list[_Place] | None:
    """Go through the requests from the newest on; give up where few sessions have very many of them."""
    is_one_session = chosen.by == "by_session"
    limit = 1 if is_one_session else _MOST_WALKED
    rows = connection.execute(
        f"""
        SELECT ended_at, session_id FROM request INDEXED BY {chosen.by}
        WHERE session_id IS NOT NULL AND {chosen.condition} AND {"1" if before is None else "ended_at <= ?"}
        ORDER BY ended_at DESC, seq DESC LIMIT ?
        """,  # noqa: S608  # made of our own words
        (*chosen.values, *(before or ())[:1], limit),
    )
    seen: set[str] = set()
    found: list[_Place] = []
    walked = 0
    for place in rows:
        walked += 1
        ended_at, session_id = place
        if len(found) >= most and ended_at < found[most - 1][0]:  # not before: several may end at once
            return found
        if session_id in seen:
            continue
        seen.add(session_id)
        if before is None or (place < before and _last(connection, chosen, session_id) == ended_at):
            found.append(place)
    return found if walked < limit or is_one_session else None


def _last(connection: sqlite3.Connection, chosen: Selection, session_id: str) -> float:
    last: float = connection.execute(
        f"""
        SELECT ended_at FROM request INDEXED BY by_session
        WHERE session_id = ? AND {chosen.condition} ORDER BY ended_at DESC LIMIT 1
        """,  # noqa: S608  # made of our own words
        (session_id, *chosen.values),
    ).fetchone()[0]
    return last


def _group(
    connection: sqlite3.Connection, chosen: Selection, before: _Place | None, most: int
) -> list[_Place]:
    """Look for the last request of every session, in all of their index."""
    return connection.execute(
        f"""
        SELECT last, session_id FROM (
            SELECT max(ended_at) AS last, session_id FROM request INDEXED BY by_session
            WHERE session_id IS NOT NULL AND {chosen.condition} GROUP BY session_id
        )
        WHERE {"1" if before is None else "(last, session_id) < (?, ?)"}
        ORDER BY last DESC, session_id DESC LIMIT ?
        """,  # noqa: S608  # made of our own words
        (*chosen.values, *(before or ()), most),
    ).fetchall()


def sum_up(connection: sqlite3.Connection, chosen: Selection, session_id: str) -> SessionSummary:
    """Add up the selected requests of a session, of which there must be one.

    Raises:
        ValueError: one has an outcome or a cause of a later release.
    """
    rows = f"FROM request INDEXED BY by_session WHERE session_id = ? AND {chosen.condition}"
    values = (session_id, *chosen.values)

    def ask(columns: str, order: str = "") -> Any:
        return connection.execute(f"SELECT {columns} {rows} {order}", values).fetchone()

    last, profile, client = ask("ended_at, profile, client", "ORDER BY ended_at DESC, seq DESC LIMIT 1")
    (first,) = ask("min(ended_at)")
    requests, with_cause, longest, slowest, *numbers = ask(_SUMS)
    left = iter(numbers)
    outcomes = dict(zip(Outcome, left, strict=False))  # the others are left for the next
    causes = dict(zip(Cause, left, strict=False))
    tokens = {
        name: int(total) if known else None for name, total, known in zip(_TOKENS, left, left, strict=True)
    }
    if (sum(outcomes.values()), sum(causes.values())) != (requests, with_cause):
        raise ValueError("an outcome or a cause of a later release")
    return SessionSummary(
        session_id=session_id,
        profile=profile,
        client=client,
        requests=requests,
        first_ended_at=first,
        last_ended_at=last,
        outcomes={outcome: count for outcome, count in outcomes.items() if count},
        causes={cause: count for cause, count in causes.items() if count},
        **tokens,
        slowest=None
        if longest is None
        else SlowestRequest(request_id=_id_of(connection, slowest), duration_s=longest),
    )


def _id_of(connection: sqlite3.Connection, seq: int) -> str:
    (body,) = connection.execute("SELECT body FROM detail WHERE seq = ?", (seq,)).fetchone()
    return read_request(body).request_id
