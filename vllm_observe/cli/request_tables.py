"""Requests and sessions as tables for a terminal: the newest first, what is slow or failed marked."""

from __future__ import annotations

import time
from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from vllm_observe.cli.fitting import Column, FittingTable
from vllm_observe.cli.words import UNKNOWN, amount, duration, printable
from vllm_observe.model import Cause, Outcome
from vllm_observe.serve.api.answers import RequestList, RequestObject, SessionList, SessionObject, Tokens

__all__ = ["WHOLE_LINE", "moment", "requests_table", "sessions_table"]

#: Columns in which a line of either table needs not be folded.
WHOLE_LINE = 320

_NONE = Text("none found; what is older than store_max_age is not kept", style="dim")
_OUTCOME_STYLES = {Outcome.OK: "", Outcome.ABORT: "yellow"}
#: Causes that a session's line names before it only counts them.
_NAMED = 3
#: Names are whole up to here, since they are asked for next: vLLM's own id of a client's UUID, and a UUID.
_ID_WIDTH, _SESSION_WIDTH = 60, 36
#: What is left of them in a narrow terminal: an id goes on in the next line.
_ID_LEAST, _SESSION_LEAST = 16, 8

_REQUEST_COLUMNS = (
    Column("ended", rank=3),
    Column("request", rank=0, least=_ID_LEAST, fold=True),
    Column("session", rank=5, least=_SESSION_LEAST),
    Column("profile", rank=8, least=_SESSION_LEAST),
    Column("took", rank=1),
    Column("first token", rank=6),
    Column("tokens", rank=7),
    Column("ended as", rank=4),
    Column("cause", rank=2),
)
_SESSION_COLUMNS = (
    Column("last", rank=4),
    Column("session", rank=0, least=_ID_LEAST, fold=True),
    Column("profile", rank=8, least=_SESSION_LEAST),
    Column("client", rank=7, least=_SESSION_LEAST),
    Column("requests", rank=1),
    Column("tokens", rank=6),
    Column("slowest", rank=2),
    Column("its request", rank=5, least=_ID_LEAST, fold=True),
    Column("causes", rank=3),
)


def requests_table(listed: RequestList) -> RenderableType:
    """Return a line a request, and how to see the older ones."""
    if not listed.requests:
        return _NONE
    table = FittingTable(_REQUEST_COLUMNS, [_request(request) for request in listed.requests])
    return Group(table, *_more(listed.next_cursor))


def sessions_table(listed: SessionList) -> RenderableType:
    """Return a line a session, and how to see the older ones."""
    if not listed.sessions:
        return _NONE
    table = FittingTable(_SESSION_COLUMNS, [_session(session) for session in listed.sessions])
    return Group(table, *_more(listed.next_cursor))


def moment(at: float | None, *, zone: bool = False) -> str:
    """Return a time of day, of this terminal's zone: with its date where that is not today."""
    if at is None:
        return UNKNOWN
    try:
        local = time.localtime(at)
        is_today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", local)
        form = "%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S"
        return time.strftime(f"{form} %Z" if zone else form, local)
    except (ValueError, OverflowError, OSError):  # as a client wrote it, and beyond every calendar
        return UNKNOWN


def _request(request: RequestObject) -> tuple[Text, ...]:
    cause = Text("") if request.cause is None else Text(request.cause.value, style="bold yellow")
    return (
        Text(moment(request.ended_at), style="dim"),
        _name(request.request_id, _ID_WIDTH),
        _name(request.session_id, _SESSION_WIDTH),
        _name(request.profile, 12),
        Text(duration(request.duration_s)),
        Text(duration(request.ttft_s)),
        Text(_tokens(request.tokens)),
        Text(_ended(request), style=_OUTCOME_STYLES.get(request.outcome, "bold red")),
        cause,
    )


def _ended(request: RequestObject) -> str:
    if request.outcome is Outcome.OK or request.status is None:
        return request.outcome.value
    return f"{request.outcome.value} {request.status}"


def _session(session: SessionObject) -> tuple[Text, ...]:
    failed = session.requests - session.outcomes.get(Outcome.OK, 0)
    count = amount(session.requests) + (f", {amount(failed)} not ok" if failed else "")
    slowest = session.slowest
    return (
        Text(moment(session.last_ended_at), style="dim"),
        _name(session.session_id, _SESSION_WIDTH),
        _name(session.profile, 12),
        _name(session.client, 12),
        Text(count),
        Text(_tokens(session.tokens)),
        Text(UNKNOWN if slowest is None else duration(slowest.duration_s)),
        Text(UNKNOWN) if slowest is None else _name(slowest.request_id, _ID_WIDTH),
        Text(_causes(session.causes), style="bold yellow"),
    )


def _causes(causes: Mapping[Cause, int]) -> str:
    ordered = sorted(causes.items(), key=lambda entry: -entry[1])
    named = ", ".join(f"{amount(count)} {cause.value}" for cause, count in ordered[:_NAMED])
    return f"{named} and others" if len(ordered) > _NAMED else named


def _tokens(tokens: Tokens) -> str:
    return f"{amount(tokens.prompt)} + {amount(tokens.completion)}"


def _name(name: str | None, width: int) -> Text:
    return Text(UNKNOWN if name is None else printable(name, width=width))


def _more(cursor: str | None) -> list[Text]:
    if cursor is None:
        return []
    return [Text(f"there are more: --cursor {printable(cursor, width=200)}", style="dim")]
