"""A request whose records are joined, and why it was slow."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec

from vllm_observe.model.engine import EngineSample
from vllm_observe.model.records import EdgeRecord, EngineRecord, Outcome

__all__ = ["Cause", "Claimed", "Evidence", "JoinedRequest", "Parts", "Phases"]

_FAILED = 400  # the first status that tells of a failure


class Cause(str, Enum):
    """The one reason that best explains a slow or failed request."""

    CLIENT_DISCONNECTED = "client_disconnected"
    REJECTED = "rejected"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    ENGINE_ERROR = "engine_error"
    QUEUE_SLOTS = "queue_slots"  # waited while running was at the limit
    QUEUE_KV = "queue_kv"  # waited while the KV cache was full
    QUEUE_BUDGET = "queue_budget"  # waited while the prompts of others filled every step
    QUEUE_DEFERRED = "queue_deferred"  # waited for a KV transfer, a LoRA slot or a grammar
    PREEMPTED = "preempted"
    PREFILL_LONG = "prefill_long"  # a long prompt that no cache held
    DECODE_LONG = "decode_long"  # many output tokens at a normal rate
    DECODE_SLOW = "decode_slow"  # slow per token
    OUTSIDE_ENGINE = "outside_engine"  # app, network or tokenizer
    UNKNOWN = "unknown"


class Evidence(msgspec.Struct, frozen=True):
    """A cause with the numbers that speak for it, in one sentence for a person."""

    cause: Cause
    text: str


class Parts(str, Enum):
    """Which sides of a request a join has seen."""

    BOTH = "both"
    EDGE = "edge"
    ENGINE = "engine"


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request's duration went, in seconds; what no record tells is ``None``."""

    outside: float | None = None
    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None


class Claimed(NamedTuple):
    """Tokens that a request has accounted for."""

    prompt: int = 0
    completion: int = 0


class JoinedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one request: its records, the engine around it, and the cause.

    A part that comes late has its attempt handed out again: ``amends`` is set, and ``uid`` is that of
    the first time, whatever id and number it had then. Attempts that were handed out apart and are one
    are named in ``absorbs``. ``claimed`` says how many tokens all of them claimed before.
    """

    request_id: str
    attempt: int = 1
    uid: str = ""  # names the attempt for good; the same records give the same one after a restart
    amends: bool = False
    absorbs: tuple[str, ...] = ()  # the uids of others that it takes the place of
    claimed: Claimed = Claimed()
    edges: tuple[EdgeRecord, ...] = ()  # outermost first
    engines: tuple[EngineRecord, ...] = ()  # in order of their start
    before_arrival: EngineSample | None = None
    before_end: EngineSample | None = None
    outcome: Outcome
    phases: Phases
    evidence: Evidence | None = None  # None: neither slow nor failed
    parts: Parts

    @property
    def session_id(self) -> str | None:
        """The app's session, from the outermost record that knows it."""
        return _first(edge.session_id for edge in self.edges)

    @property
    def profile(self) -> str | None:
        """The app's use of the model, from the outermost record that knows it."""
        return _first(edge.profile for edge in self.edges)

    @property
    def client(self) -> str | None:
        """Who sent the request, from the outermost record that knows it."""
        return _first(edge.client for edge in self.edges)

    @property
    def model_name(self) -> str | None:
        """The served model: the engine's word first, since a client may name an alias."""
        return _first([*[part.model for part in self.engines], *[edge.model for edge in self.edges]])

    @property
    def engine(self) -> str | None:
        """The data-parallel rank that served the request."""
        return _first([part.engine for part in self.engines])

    @property
    def ended_at(self) -> float:
        """When the last part of the request ended."""
        return max([*[edge.ts for edge in self.edges], *[part.ts for part in self.engines]])

    @property
    def duration_s(self) -> float | None:
        """The duration that the user felt: the outermost record's, else the longest engine part's."""
        felt = _first([edge.duration_s for edge in self.edges])
        return felt if felt is not None else max(_known(part.e2e_s for part in self.engines), default=None)

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token as the user saw it; without an edge's word the engine's."""
        seen = _first(edge.ttft_s for edge in self.edges)
        if seen is not None:
            return seen
        waits = ((part.queue_s, part.prefill_s) for part in self.engines)
        return min(
            (queue + prefill for queue, prefill in waits if queue is not None and prefill is not None),
            default=None,
        )

    @property
    def status(self) -> int | None:
        """The HTTP status that the user saw; of a request that did not end well, the outermost that says so."""
        known = _known(edge.status for edge in self.edges)
        failed = [status for status in known if status >= _FAILED] if self.outcome is not Outcome.OK else []
        return _first([*failed, *known])

    @property
    def finish_reason(self) -> str | None:
        """How the engine ended it, by the part that ended last: a prefill leg always ends by ``length``."""
        return _first(part.finish_reason for part in sorted(self.engines, key=lambda part: -part.ts))

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens, cached ones included."""
        return self._tokens("prompt_tokens")

    @property
    def completion_tokens(self) -> int | None:
        """Output tokens."""
        return self._tokens("completion_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that a prefix cache held."""
        return self._tokens("cached_tokens")

    def _tokens(self, field: str) -> int | None:
        told: int | None = _first([getattr(edge, field) for edge in self.edges])
        if told is not None:
            return told
        timed = _known(getattr(part, field) for part in self.engines if part.is_timed)
        counted = timed or _known(getattr(part, field) for part in self.engines)
        return sum(counted) if counted else None


_T = TypeVar("_T")


def _known(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def _first(values: Iterable[_T | None]) -> _T | None:
    for value in values:
        if value is not None:
            return value
    return None
