"""The interface of a store of joined requests, whatever keeps them.

Times of day are seconds since the Unix epoch, durations are seconds. A request is listed by when it
ended; an end in the future, by another host's clock, counts as the moment it was stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from vllm_observe.model import Cause, EdgeRecord, EngineRecord, JoinedRequest, Limits, Outcome
from vllm_observe.records.position import Positions

__all__ = [
    "MOST_PER_PAGE",
    "Progress",
    "RequestFilter",
    "RequestPage",
    "RequestReader",
    "RequestStore",
    "SessionPage",
    "SessionSummary",
    "SlowestRequest",
]

#: The most requests or sessions that one answer holds; a greater limit counts as this one.
MOST_PER_PAGE = 1000


class RequestFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the requests that meet all conditions that are set."""

    session_id: str | None = None
    profile: str | None = None
    client: str | None = None
    model: str | None = None
    outcome: Outcome | None = None
    cause: Cause | None = None
    slower_than: float | None = None  # seconds; a request of unknown duration is not slower
    since: float | None = None  # ended then or later
    until: float | None = None  # ended before


class RequestPage(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, the newest first, and where the next page begins; ``None`` on the last one."""

    requests: tuple[JoinedRequest, ...]
    next_cursor: str | None = None


class SlowestRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a session that took the longest."""

    request_id: str
    duration_s: float


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one session, over those of its requests that a filter selects.

    Token sums are over the requests whose tokens are known; ``None`` where none are.
    """

    session_id: str
    profile: str | None  # of its last request, as is the client
    client: str | None
    requests: int
    first_ended_at: float
    last_ended_at: float
    outcomes: Mapping[Outcome, int]
    causes: Mapping[Cause, int]
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    slowest: SlowestRequest | None  # None: no duration is known


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, the most recently active first, and where the next page begins; ``None`` on the last one."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class RequestReader(Protocol):
    """Answers questions about what is stored. Any thread may ask.

    Every method raises :class:`~vllm_observe.errors.StoreError` where the store cannot be read, and
    those with a cursor :class:`~vllm_observe.errors.CursorError` for one that no page gave.
    """

    def requests(self, where: RequestFilter, *, limit: int = 50, cursor: str | None = None) -> RequestPage:
        """List requests, the newest first.

        Pages follow each other by place, not by number: requests that are stored meanwhile shift nothing,
        so none comes twice and none is left out.

        Args:
            where: which requests.
            limit: how many at most, from 1 to :data:`MOST_PER_PAGE`.
            cursor: the page before's ``next_cursor``; ``None`` for the first page.
        """

    def request(self, request_id: str) -> tuple[JoinedRequest, ...]:
        """Return all attempts of one id, in the order of their ends; empty where it is not known.

        vLLM's own id for the request (``chatcmpl-abc``) finds it as well as the client's (``abc``).
        """

    def sessions(self, where: RequestFilter, *, limit: int = 50, cursor: str | None = None) -> SessionPage:
        """Sum up sessions, the most recently active first; the arguments are those of ``requests``."""

    def close(self) -> None:
        """Release what the store holds open."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What a sidecar must know at its start to continue as if it had not stopped.

    Every record that was read is in a stored request or in ``waiting``, and ``positions`` stand right
    behind the last of them. The exception is an arrival whose end did not come within the join's window.
    """

    positions: Positions
    waiting: tuple[EdgeRecord | EngineRecord, ...] = ()  # in the join, not handed out yet
    limits: tuple[Limits, ...] = ()  # as read from a log, the latest of each engine


class RequestStore(RequestReader, Protocol):
    """A store that is written to, by one process. Any thread may ``add``; one thread calls ``flush``.

    Attributes:
        rows: requests that are stored; ``None`` while the store cannot be used.
        errors: how often it could not be used.
        dropped: requests that were given up because it could not be used for too long.
        too_old: requests that were older than what it keeps when they came.
    """

    errors: int
    dropped: int
    too_old: int

    @property
    def rows(self) -> int | None:
        """See above."""

    def resume(self) -> Progress | None:
        """Return the progress that was kept last; ``None`` in a new store. Before the first ``flush``."""

    def latest(self, most: int) -> Sequence[JoinedRequest]:
        """Return the requests that were stored last, the oldest first.

        Raises:
            StoreError: the store cannot be read.
        """

    def add(self, requests: Sequence[JoinedRequest], progress: Progress | None = None) -> None:
        """Take requests that the join handed out, and the state of the join and the logs at that moment.

        Both are kept together or not at all, with the next ``flush``. A request that ``amends`` takes
        the place of what was handed out of it before, and of what it ``absorbs``.
        """

    def flush(self) -> None:
        """Write what was added; blocks for as long as the disk takes. Failures are counted and retried."""
