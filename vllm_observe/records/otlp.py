"""OTLP traces: vLLM's ``llm_request`` spans to engine records.

A server with ``--otlp-traces-endpoint`` sends one such span for each engine request that it finished,
none for one that was aborted. V1 has sent them since 0.10.2, V0 until 0.10.2. A span tells neither the
engine nor how the request ended, and in V1 not the model.

All other spans are counted and not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from vllm_observe.errors import BodyError, RecordError
from vllm_observe.model import Record
from vllm_observe.records.format1 import build
from vllm_observe.records.values import check_clock, count, seconds

__all__ = ["Encoding", "Export", "answer", "read"]

_NAME = "llm_request"
#: The attributes by the field of an engine record that they fill; their units are ours.
_ATTRIBUTES = {
    "gen_ai.request.id": "request_id",
    "gen_ai.response.model": "model",  # V0
    "gen_ai.request.max_tokens": "max_tokens",
    "gen_ai.usage.prompt_tokens": "prompt_tokens",
    "gen_ai.usage.completion_tokens": "completion_tokens",
    "gen_ai.latency.e2e": "e2e_s",
    "gen_ai.latency.time_in_queue": "queue_s",
    "gen_ai.latency.time_in_model_prefill": "prefill_s",  # V1
    "gen_ai.latency.time_in_model_decode": "decode_s",  # V1
}
_TTFT = "gen_ai.latency.time_to_first_token"
_NANOSECONDS = 1e9
_TIME_BITS = 64
_MOST_DIGITS = 20  # of so many bits


class Encoding(Enum):
    """How a body is written; the value is its media type."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


class Export(NamedTuple):
    """What one body held: records, why spans that should be some are none, and how many other spans."""

    records: list[Record]
    refused: list[RecordError]
    others: int


class _Span(NamedTuple):
    """A span of vLLM's, its attributes as JSON could hold them."""

    ended_at: float | None  # epoch seconds
    attributes: Mapping[str, Any]


def read(body: bytes, encoding: Encoding, now: float) -> Export:
    """Read an ``ExportTraceServiceRequest``, at a time of day.

    Raises:
        BodyError: the body is none.
    """
    records: list[Record] = []
    refused: list[RecordError] = []
    others = 0
    request_of, plain = _READERS[encoding]
    for span in _spans(request_of(body), plain):
        if span is None:
            others += 1
            continue
        try:
            records.append(_record(span, now))
        except RecordError as error:
            refused.append(error)
    return Export(records, refused, others)


def answer(export: Export, encoding: Encoding) -> bytes:
    """Write the ``ExportTraceServiceResponse``: empty, or how many spans were rejected and why."""
    rejected = len(export.refused)
    why = f"the first: {export.refused[0]}" if rejected else ""
    if encoding is Encoding.JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}}
        return msgspec.json.encode(partial if rejected else {})
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415  # see _of_protobuf

    response = trace_service_pb2.ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = why
    return response.SerializeToString()


def _record(span: _Span, now: float) -> Record:
    if span.ended_at is not None:
        check_clock(span.ended_at, now)
    found = {field: span.attributes.get(name) for name, field in _ATTRIBUTES.items()}
    found |= {"kind": "engine", "ts": span.ended_at}
    times = {field: _seconds(found[field], field) for field in ("e2e_s", "queue_s", "prefill_s", "decode_s")}
    times = _phases_of_v0(times, _seconds(span.attributes.get(_TTFT), "time_to_first_token"))
    tokens, decode = found["completion_tokens"], times["decode_s"]
    tokens = None if tokens is None else count(tokens, "completion_tokens")
    if tokens is not None and tokens > 1 and decode is not None:
        found["tpot_s"] = decode / (tokens - 1)  # as vLLM's own metric has it: the first is the prefill's
    # A request that was cut off has no span, so one without a finish reason came to a good end.
    return msgspec.structs.replace(build({**found, **times}), completed=True)


def _seconds(value: Any, field: str) -> float | None:
    return None if value is None else seconds(value, field)


def _phases_of_v0(times: Mapping[str, float | None], ttft: float | None) -> dict[str, float | None]:
    """Find the phases that V0 does not name: its first token ends the prefill."""
    whole, queue = times["e2e_s"], times["queue_s"]
    if times["prefill_s"] is not None or whole is None or queue is None or ttft is None:
        return {**times}
    return {**times, "prefill_s": max(0.0, ttft - queue), "decode_s": max(0.0, whole - ttft)}


def _spans(request: Any, plain: Callable[[Any], Any]) -> Iterator[_Span | None]:
    """List a request's spans, with ``None`` for each that is not vLLM's; both encodings name the same things."""
    for resource in request.resource_spans or ():
        for scope in resource.scope_spans or ():
            for span in scope.spans or ():
                if span.name != _NAME:
                    yield None
                    continue
                attributes = {one.key: plain(one.value) for one in span.attributes or ()}
                yield _Span(_epoch(span.end_time_unix_nano), attributes)


def _epoch(nanoseconds: int | str | None) -> float | None:
    """Read a time as epoch seconds; 0 is how protobuf has one that is not set."""
    if isinstance(nanoseconds, str):
        is_number = nanoseconds.isascii() and nanoseconds.isdecimal() and len(nanoseconds) <= _MOST_DIGITS
        nanoseconds = int(nanoseconds) if is_number else None
    return nanoseconds / _NANOSECONDS if nanoseconds and nanoseconds.bit_length() <= _TIME_BITS else None


# --- The encodings: what makes a request of a body, and a plain value of an attribute's ------------


def _of_protobuf(body: bytes) -> Any:
    # Imported for the first body only: it takes 30 ms and most sidecars are never sent any.
    from google.protobuf.message import DecodeError  # noqa: PLC0415
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: PLC0415

    try:
        return trace_service_pb2.ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise BodyError("no ExportTraceServiceRequest in protobuf") from None


def _plain_of_protobuf(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind in _AnyValue.__struct_fields__ else None


class _AnyValue(msgspec.Struct, rename="camel"):
    """A value; 64-bit integers and what is not finite are written as text."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None

    @property
    def plain(self) -> Any:
        values = (self.string_value, self.bool_value, self.int_value, self.double_value)
        value = next((value for value in values if value is not None), None)
        return None if value in ("NaN", "Infinity", "-Infinity") and value is self.double_value else value


class _Attribute(msgspec.Struct):
    key: str = ""
    value: _AnyValue | None = None


class _JsonSpan(msgspec.Struct, rename="camel"):
    name: str = ""
    end_time_unix_nano: int | str | None = None
    attributes: list[_Attribute] | None = None


class _Scope(msgspec.Struct):
    spans: list[_JsonSpan] | None = None


class _Resource(msgspec.Struct, rename="camel"):
    scope_spans: list[_Scope] | None = None


class _Request(msgspec.Struct, rename="camel"):
    resource_spans: list[_Resource] | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def _of_json(body: bytes) -> _Request:
    try:
        return _REQUEST.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise BodyError("no ExportTraceServiceRequest in JSON") from None


def _plain_of_json(value: _AnyValue | None) -> Any:
    return value and value.plain


_READERS: Mapping[Encoding, tuple[Callable[[bytes], Any], Callable[[Any], Any]]] = {
    Encoding.PROTOBUF: (_of_protobuf, _plain_of_protobuf),
    Encoding.JSON: (_of_json, _plain_of_json),
}
