"""What a simulated run leaves behind: the lines of record format 1, as vLLM's side and its clients' would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from vllm_observe.model import EdgeRecord, EngineRecord, EngineSample, EngineState, Limits, Outcome, Record
from vllm_observe.sim.http_tally import status_of
from vllm_observe.sim.requests import End, Ended

__all__ = ["edge_record", "engine_record", "line", "middleware_record", "records", "sample_at"]

_OUTCOMES = {
    End.STOP: Outcome.OK,
    End.LENGTH: Outcome.OK,
    End.LEFT: Outcome.ABORT,
    End.REFUSED: Outcome.REJECTED,
    End.INVALID: Outcome.ERROR,
    End.FAILED: Outcome.ERROR,
    End.BROKEN: Outcome.ERROR,
}
_ERRORS = {End.INVALID: "BadRequestError", End.FAILED: "EngineDeadError", End.BROKEN: "InternalServerError"}
_FAILED = 400  # the first HTTP status of a failure
_PREFIXES = {"/v1/chat/completions": ("chatcmpl-", ""), "/v1/completions": ("cmpl-", "-0")}


def edge_record(ended: Ended, *, epoch: float, model: str) -> EdgeRecord:
    """Tell of a request as its client saw it.

    Args:
        ended: the request.
        epoch: the time of day at the simulation's second 0.
        model: the model that the client asked for.
    """
    arrival, first = ended.arrival, ended.first_token_at
    streamed = arrival.stream and first is not None
    return EdgeRecord(
        ts=epoch + ended.at,
        request_id=arrival.request_id,
        outcome=Outcome.TIMEOUT if _gave_up(ended) else _OUTCOMES[ended.end],
        session_id=arrival.session_id,
        profile=arrival.profile,
        client=arrival.client,
        model=model,
        path=arrival.path,
        stream=arrival.stream,
        status=status_of(ended),
        error=_ERRORS.get(ended.end),
        duration_s=ended.duration_s,
        ttft_s=first - arrival.at if streamed and first is not None else None,
        prompt_tokens=ended.prompt_tokens if ended.finished else None,
        completion_tokens=ended.output_tokens if ended.finished or streamed else None,
        cached_tokens=ended.cached_tokens if ended.finished else None,
        max_tokens=arrival.max_tokens,
    )


def middleware_record(ended: Ended, *, epoch: float) -> EdgeRecord:
    """Tell of a request as the middleware inside vLLM did: of the server's time, by its path and headers.

    A client's time limit is its own affair: here it is one that left.
    """
    arrival, first = ended.arrival, ended.first_token_at
    reached = min(arrival.reaches_engine_at, ended.at)
    status = status_of(ended)
    streamed = arrival.stream and first is not None
    return EdgeRecord(
        ts=epoch + ended.at,
        request_id=arrival.request_id,
        outcome=_OUTCOMES[ended.end],
        session_id=arrival.session_id,
        profile=arrival.profile,
        client=arrival.client,
        path=arrival.path,
        stream=arrival.stream if status is not None and status < _FAILED else None,
        status=status,
        error=_ERRORS.get(ended.end),
        duration_s=ended.at - reached,
        ttft_s=first - reached if streamed and first is not None else None,
        prompt_tokens=ended.prompt_tokens if ended.finished else None,
        completion_tokens=ended.output_tokens if ended.finished else None,
        cached_tokens=ended.cached_tokens if ended.finished else None,
    )


def _gave_up(ended: Ended) -> bool:
    return ended.end is End.LEFT and ended.arrival.times_out


def engine_record(ended: Ended, *, epoch: float) -> EngineRecord | None:
    """Tell of a request as its engine did; ``None`` where vLLM tells nothing, as of a client that left."""
    if not ended.finished or ended.engine is None:
        return None
    prefix, suffix = _PREFIXES.get(ended.arrival.path, ("", ""))
    return EngineRecord(
        ts=epoch + ended.at,
        request_id=f"{prefix}{ended.arrival.request_id}{suffix}",
        model=ended.engine.model_name,
        engine=ended.engine.engine,
        finish_reason=ended.end.value,
        e2e_s=ended.e2e_s,
        queue_s=ended.queue_s,
        prefill_s=ended.prefill_s,
        decode_s=ended.decode_s,
        tpot_s=ended.tpot_s,
        prompt_tokens=ended.prompt_tokens,
        completion_tokens=ended.output_tokens,
        cached_tokens=ended.cached_tokens,
        preemptions=ended.preemptions,
        max_tokens=ended.arrival.max_tokens,
        state=EngineState(running=ended.running, waiting=ended.waiting, kv_usage=ended.kv_usage),
    )


def records(ended: Ended, *, epoch: float, model: str) -> Iterator[EdgeRecord | EngineRecord]:
    """Tell of a request from both sides, the engine's first."""
    inside = engine_record(ended, epoch=epoch)
    if inside is not None:
        yield inside
    yield edge_record(ended, epoch=epoch, model=model)


def sample_at(sample: EngineSample, *, epoch: float) -> EngineSample:
    """Put a sample's time on the clock of the day."""
    return msgspec.structs.replace(sample, at=epoch + sample.at)


def line(record: Record) -> bytes:
    """Write a record as a line of format 1, its newline included."""
    told: dict[str, Any] = msgspec.to_builtins(record)
    if isinstance(record, EngineSample):
        model, engine = told.pop("key")
        told = {"kind": "sample", "ts": told.pop("at"), "model": model, "engine": engine, **told}
    elif isinstance(record, Limits):
        told.pop("source")
        told = {"kind": "limits", **told}
    else:
        told = {"kind": "edge" if isinstance(record, EdgeRecord) else "engine", **told}
    return msgspec.json.encode({name: value for name, value in told.items() if value is not None}) + b"\n"
