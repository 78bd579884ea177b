"""What the admin API answers about requests and sessions; what is not known is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from vllm_observe.model import (
    Cause,
    EdgeRecord,
    EngineRecord,
    EngineSample,
    JoinedRequest,
    Outcome,
    Parts,
    Phases,
)
from vllm_observe.store.protocol import RequestFilter, RequestReader, SessionSummary, SlowestRequest

__all__ = [
    "Attempt",
    "Attempts",
    "Problem",
    "RequestList",
    "RequestObject",
    "SessionList",
    "SessionObject",
    "Tokens",
    "attempts_of",
    "list_requests",
    "list_sessions",
]


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a request or of a session; the cached ones are among the prompt's."""

    prompt: int | None
    cached: int | None
    completion: int | None


class RequestObject(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one request. Times of day are seconds since the Unix epoch, durations seconds."""

    request_id: str
    session_id: str | None
    profile: str | None
    client: str | None
    model: str | None
    engine: str | None
    attempt: int
    started_at: float | None
    ended_at: float
    duration_s: float | None
    ttft_s: float | None
    phases: Phases
    tokens: Tokens
    status: int | None
    outcome: Outcome
    finish_reason: str | None
    cause: Cause | None  # null: neither slow nor failed
    evidence: str | None
    parts: Parts


class EngineAround(msgspec.Struct, frozen=True, kw_only=True):
    """The load of the request's engine at one moment, from its metrics."""

    at: float
    running: float | None
    waiting: float | None
    kv_usage: float | None


class Attempt(RequestObject, frozen=True, kw_only=True):
    """An attempt with all its records: its edge records, the outermost first, and its engine records."""

    edges: tuple[EdgeRecord, ...]
    engines: tuple[EngineRecord, ...]
    at_arrival: EngineAround | None
    at_end: EngineAround | None


class RequestList(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, the newest first. ``next_cursor`` asks for the older ones; null on the last page."""

    requests: tuple[RequestObject, ...]
    next_cursor: str | None


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """All attempts of one request, in the order of their ends."""

    request_id: str
    attempts: tuple[Attempt, ...]


class SessionObject(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one session, over those of its requests that the filter selects."""

    session_id: str
    profile: str | None
    client: str | None
    requests: int
    first_ended_at: float
    last_ended_at: float
    outcomes: Mapping[Outcome, int]
    causes: Mapping[Cause, int]
    tokens: Tokens
    slowest: SlowestRequest | None  # null: no duration is known


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the most recently active first."""

    sessions: tuple[SessionObject, ...]
    next_cursor: str | None


class ProblemDetail(msgspec.Struct, frozen=True):
    """What went wrong: the HTTP status in words, and a sentence for a person."""

    code: str
    message: str


class Problem(msgspec.Struct, frozen=True):
    """An error's answer."""

    error: ProblemDetail


def list_requests(
    reader: RequestReader, where: RequestFilter, *, limit: int, cursor: str | None
) -> RequestList:
    """Ask a store for a page of requests.

    Raises:
        StoreError: the store cannot be read, or no page gave this cursor.
    """
    page = reader.requests(where, limit=limit, cursor=cursor)
    return RequestList(
        requests=tuple(RequestObject(**_fields(request)) for request in page.requests),
        next_cursor=page.next_cursor,
    )


def attempts_of(reader: RequestReader, request_id: str) -> Attempts | None:
    """Ask a store for all attempts of a request; ``None`` where it is not known.

    Raises:
        StoreError: the store cannot be read.
    """
    found = reader.request(request_id)
    if not found:
        return None
    return Attempts(request_id=found[0].request_id, attempts=tuple(_attempt(request) for request in found))


def list_sessions(
    reader: RequestReader, where: RequestFilter, *, limit: int, cursor: str | None
) -> SessionList:
    """Ask a store for a page of sessions.

    Raises:
        StoreError: the store cannot be read, or no page gave this cursor.
    """
    page = reader.sessions(where, limit=limit, cursor=cursor)
    return SessionList(sessions=tuple(map(_session, page.sessions)), next_cursor=page.next_cursor)


def _fields(request: JoinedRequest) -> dict[str, Any]:
    duration, evidence = request.duration_s, request.evidence
    return {
        "request_id": request.request_id,
        "session_id": request.session_id,
        "profile": request.profile,
        "client": request.client,
        "model": request.model_name,
        "engine": request.engine,
        "attempt": request.attempt,
        "started_at": None if duration is None else request.ended_at - duration,
        "ended_at": request.ended_at,
        "duration_s": duration,
        "ttft_s": request.ttft_s,
        "phases": request.phases,
        "tokens": Tokens(
            prompt=request.prompt_tokens, cached=request.cached_tokens, completion=request.completion_tokens
        ),
        "status": request.status,
        "outcome": request.outcome,
        "finish_reason": request.finish_reason,
        "cause": None if evidence is None else evidence.cause,
        "evidence": None if evidence is None else evidence.text,
        "parts": request.parts,
    }


def _attempt(request: JoinedRequest) -> Attempt:
    return Attempt(
        **_fields(request),
        edges=request.edges,
        engines=request.engines,
        at_arrival=_around(request.before_arrival),
        at_end=_around(request.before_end),
    )


def _around(sample: EngineSample | None) -> EngineAround | None:
    if sample is None:
        return None
    return EngineAround(
        at=sample.at, running=sample.running, waiting=sample.waiting, kv_usage=sample.kv_usage
    )


def _session(summary: SessionSummary) -> SessionObject:
    return SessionObject(
        session_id=summary.session_id,
        profile=summary.profile,
        client=summary.client,
        requests=summary.requests,
        first_ended_at=summary.first_ended_at,
        last_ended_at=summary.last_ended_at,
        outcomes=summary.outcomes,
        causes=summary.causes,
        tokens=Tokens(
            prompt=summary.prompt_tokens,
            cached=summary.cached_tokens,
            completion=summary.completion_tokens,
        ),
        slowest=summary.slowest,
    )
