"""Requests for a store by hand, and a store with its clock."""

from __future__ import annotations

from pathlib import Path

from support.joins import T, edge, engine, sample
from vllm_observe.clock import ManualClock
from vllm_observe.join.identity import uid
from vllm_observe.model import Evidence, JoinedRequest, Outcome, Parts, Phases
from vllm_observe.store.database import Bounds
from vllm_observe.store.protocol import MOST_PER_PAGE, RequestFilter, RequestReader
from vllm_observe.store.sqlite import SqliteStore

#: Far from any of these.
ROOMY = Bounds(rows=1_000_000, age_s=7 * 86_400.0, bytes=2 * 1024**3)
#: When the tests' requests are stored: after all of them have ended.
NOW = T + 100_000.0


def request(
    name: str, *, cause=None, outcome=Outcome.OK, engine_part: bool = True, **values
) -> JoinedRequest:
    """A request that both sides told of; the values are its edge record's."""
    outermost = edge(name, outcome=outcome, **values)
    part = engine(f"chatcmpl-{name}", took=1.0, queue_s=0.25, prefill_s=0.25, decode_s=0.5)
    made = JoinedRequest(
        request_id=name,
        edges=(outermost,),
        engines=(part,) if engine_part else (),
        before_end=sample(0.0, running=8.0, waiting=3.0),
        outcome=outcome,
        phases=Phases(outside=3.0, queue=0.25, prefill=0.25, decode=0.5),
        evidence=None if cause is None else Evidence(cause, "8 of 8 slots were taken"),
        parts=Parts.BOTH if engine_part else Parts.EDGE,
    )
    return named(made)


def engine_only(engine_id: str, **values) -> JoinedRequest:
    """A request of which only the engine told."""
    part = engine(engine_id, **values)
    return named(
        JoinedRequest(
            request_id=engine_id, engines=(part,), outcome=Outcome.OK, phases=Phases(), parts=Parts.ENGINE
        )
    )


def named(made: JoinedRequest) -> JoinedRequest:
    """The same with its uid, as the join gives it."""
    return replaced(made, uid=uid(made))


def replaced(made: JoinedRequest, **values) -> JoinedRequest:
    """The same with some fields changed."""
    return JoinedRequest(**{name: getattr(made, name) for name in made.__struct_fields__} | values)


def open_store(
    path: Path, *, bounds: Bounds = ROOMY, clock: ManualClock | None = None, **options
) -> SqliteStore:
    """A store in a file, whose clock is later than all requests."""
    return SqliteStore(path, bounds=bounds, clock=clock or ManualClock(wall=NOW), **options)


def put(store: SqliteStore, *requests: JoinedRequest) -> None:
    """Add and write."""
    store.add(requests)
    store.flush()


def listed(reader: RequestReader, *, limit: int = MOST_PER_PAGE, **where) -> list[str]:
    """The ids of all requests that a filter lets pass, page after page."""
    return [one.request_id for one in everything(reader, limit=limit, **where)]


def everything(reader: RequestReader, *, limit: int = MOST_PER_PAGE, **where) -> list[JoinedRequest]:
    """All requests that a filter lets pass, page after page."""
    found, cursor = [], None
    while True:
        page = reader.requests(RequestFilter(**where), limit=limit, cursor=cursor)
        found += page.requests
        cursor = page.next_cursor
        if cursor is None:
            return found
