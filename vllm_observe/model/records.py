"""What one line of a request log tells."""

from __future__ import annotations

from enum import Enum

import msgspec

from vllm_observe.model.engine import EngineSample, Limits

__all__ = ["EdgeRecord", "EngineRecord", "EngineState", "Outcome", "Record", "outcome_of"]


class Outcome(str, Enum):
    """How a request ended for its client. HTTP 200 alone is not ``ok``."""

    OK = "ok"
    ERROR = "error"
    ABORT = "abort"  # the client left, or the engine gave the request up
    TIMEOUT = "timeout"
    REJECTED = "rejected"  # refused before it was served: 429, 503


#: What the finish reasons say that vLLM and the APIs it speaks have.
_BY_FINISH_REASON = {
    "abort": Outcome.ABORT,
    "error": Outcome.ERROR,
    **dict.fromkeys(("stop", "length", "repetition"), Outcome.OK),  # vLLM's own
    **dict.fromkeys(("tool_calls", "function_call", "content_filter"), Outcome.OK),  # OpenAI's
    **dict.fromkeys(("end_turn", "max_tokens", "stop_sequence", "tool_use"), Outcome.OK),  # Anthropic's
}


def outcome_of(finish_reason: str | None) -> Outcome | None:
    """Say how a request ended, by its finish reason; ``None`` without one, and for one that nobody knows."""
    return None if finish_reason is None else _BY_FINISH_REASON.get(finish_reason.lower())


class EdgeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A request as seen from outside the engine; ``ts`` is its end."""

    ts: float
    request_id: str
    outcome: Outcome
    session_id: str | None = None
    profile: str | None = None
    client: str | None = None
    model: str | None = None
    path: str | None = None
    stream: bool | None = None
    status: int | None = None
    error: str | None = None
    duration_s: float | None = None
    ttft_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    max_tokens: int | None = None
    queue_depth: int | None = None
    trace_id: str | None = None
    source: str | None = None  # where it was read: all that one source tells has one clock
    skew_s: float | None = None  # its clock was so far ahead of the engine's, and ``ts`` was put right

    @property
    def started_at(self) -> float:
        """When the request arrived; its end where the duration is not known."""
        return self.ts - (self.duration_s or 0.0)


class EngineState(msgspec.Struct, frozen=True, kw_only=True):
    """How full the engine was when a request ended, as the engine itself saw it."""

    running: float | None = None
    waiting: float | None = None
    waiting_capacity: float | None = None
    waiting_deferred: float | None = None
    kv_usage: float | None = None


class EngineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine did for one request; ``ts`` is its end, ``request_id`` is vLLM's id.

    Where a log line reports only that a request arrived, ``ts`` is the arrival.
    """

    ts: float
    request_id: str
    completed: bool = False  # it came to a good end, though its source gives no finish reason
    model: str | None = None
    engine: str | None = None
    finish_reason: str | None = None
    e2e_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    tpot_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    preemptions: int | None = None
    max_tokens: int | None = None
    state: EngineState | None = None
    source: str | None = None  # where it was read: all that one source tells has one clock

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; ``None`` where that is not told, so after an arrival."""
        if self.finish_reason is None and self.completed:
            return Outcome.OK
        return outcome_of(self.finish_reason)

    @property
    def started_at(self) -> float:
        """When the request reached the engine; its end where the latency is not known."""
        return self.ts - (self.e2e_s or 0.0)

    @property
    def is_timed(self) -> bool:
        """Whether any of its durations is known: the lines of vLLM's own log have none.

        Such a line repeats what a timed record of the same request says.
        """
        durations = (self.e2e_s, self.queue_s, self.prefill_s, self.decode_s)
        return durations != (None, None, None, None)


#: What one line of a request log can hold.
Record = EdgeRecord | EngineRecord | EngineSample | Limits
