"""Requests and records as rows: columns for what is searched, JSON for the whole."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec

from vllm_observe.join.identity import candidates, key, uid
from vllm_observe.model import EdgeRecord, EngineRecord, JoinedRequest, Parts

__all__ = ["RequestRow", "read_record", "read_request", "write_json", "write_record", "write_request"]

#: Beyond it SQLite has no integers; no model has such a context.
_LARGEST = 2**63 - 1
#: How a delivery came to be, which says nothing about the request.
_OF_THE_DELIVERY = ("amends", "absorbs", "claimed")

_RECORDS: dict[str, type[EdgeRecord | EngineRecord]] = {"edge": EdgeRecord, "engine": EngineRecord}
_request = msgspec.json.Decoder(JoinedRequest)


class RequestRow(NamedTuple):
    """One request, in the order of the table's columns after ``seq``; ``body`` goes into its own table."""

    uid: str
    id_key: str
    stem: str | None
    session_id: str | None
    profile: str | None
    client: str | None
    model: str | None
    outcome: str
    cause: str | None
    ended_at: float
    duration_s: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    body: str


def write_request(request: JoinedRequest, now: float) -> RequestRow:
    """Make a row of a request.

    Args:
        request: the request.
        now: the time of day; an end after it, by another host's clock, counts as now.

    Raises:
        ValueError: it has no time.
    """
    if not math.isfinite(request.ended_at):
        raise ValueError("a request without a time")
    fields = msgspec.to_builtins(request)
    for name in _OF_THE_DELIVERY:
        del fields[name]
    return RequestRow(
        uid=request.uid or uid(request),
        id_key=_text(key(request.request_id)),
        stem=_text(candidates(request.request_id)[-1]) if request.parts is Parts.ENGINE else None,
        session_id=_name(request.session_id),
        profile=_name(request.profile),
        client=_name(request.client),
        model=_name(request.model_name),
        outcome=request.outcome.value,
        cause=request.evidence.cause.value if request.evidence is not None else None,
        ended_at=min(request.ended_at, now),
        duration_s=request.duration_s,
        prompt_tokens=_count(request.prompt_tokens),
        cached_tokens=_count(request.cached_tokens),
        completion_tokens=_count(request.completion_tokens),
        body=write_json(_without_nulls(fields)),
    )


def read_request(body: str) -> JoinedRequest:
    """Make a request of its JSON.

    Raises:
        msgspec.MsgspecError: something else wrote it.
    """
    return _request.decode(body)


def write_record(record: EdgeRecord | EngineRecord) -> tuple[str, str]:
    """Make a record's kind and its JSON."""
    kind = "edge" if isinstance(record, EdgeRecord) else "engine"
    return kind, write_json(_without_nulls(msgspec.to_builtins(record)))


def read_record(kind: str, body: str) -> EdgeRecord | EngineRecord:
    """Make a record of its kind and its JSON.

    Raises:
        msgspec.MsgspecError: something else wrote it.
    """
    return msgspec.json.decode(body, type=_RECORDS[kind])


def write_json(value: Any) -> str:
    """Write JSON, with ``?`` for what UTF-8 cannot hold: half of a surrogate pair, as logs have it."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(value))).decode()


def _without_nulls(value: Any) -> Any:
    """Leave out what is not known: half of a record's fields, most often."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(one) for one in value]
    return value


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _cleaned(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode()


def _name(value: str | None) -> str | None:
    return None if value is None else _text(value)


def _count(value: int | None) -> int | None:
    return value if value is not None and abs(value) <= _LARGEST else None
