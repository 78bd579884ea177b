"""Envoy's JSON access log, with the keys that Istio gives it; docs/formats.md has the `json_format`.

Envoy tells when a request began and how long it took; its end is the sum. Its response flags say more
than its status: 503 is for a request that was refused as well as for a server that was not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_observe.model import Outcome
from vllm_observe.records.formats.ready import ReadyMap, at
from vllm_observe.records.values import moment, seconds

__all__ = ["ENVOY"]

_RULES = {
    "ts": None,
    "request_id": at("request_id"),
    "session_id": at("x_session_id"),
    "profile": at("x_profile"),
    "client": at("x_client_id"),
    "path": at("path"),
    "status": at("response_code"),
    "duration_s": at("duration", scale=0.001),
    "trace_id": at("traceparent"),
}
_OUTCOMES = {
    Outcome.ABORT: ("DC", "DR"),  # the client ended the connection, or its stream
    Outcome.TIMEOUT: ("UT", "SI", "DT", "UMSDR"),  # upstream, idle stream, downstream, longest stream
    Outcome.REJECTED: ("UO", "RL", "OM", "DO"),  # circuit breaker, rate limit, overload, dropped by EDS
}
#: Flags of requests that may well be served: out of a cache, with a delay on purpose, or though the
#: rate limit could not be asked for.
_HARMLESS = frozenset(("RFCF", "DI", "RLSE"))
_BY_FLAG = {flag: outcome for outcome, flags in _OUTCOMES.items() for flag in flags}
_PRECEDENCE = (Outcome.ABORT, Outcome.TIMEOUT, Outcome.REJECTED, Outcome.ERROR)


def _derive(found: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    derived: dict[str, Any] = {}
    began, took = found.get("start_time"), named.get("duration_s")
    began = None if began is None else moment(began, "start_time")
    took = None if took is None else seconds(took, "duration_s")
    if began is not None:
        derived["ts"] = began + (took or 0.0)
    if flags := _flags(found.get("response_flags")):
        outcome = min((_BY_FLAG.get(flag, Outcome.ERROR) for flag in flags), key=_PRECEDENCE.index)
        derived["outcome"] = outcome.value
        derived["error"] = next(flag for flag in flags if _BY_FLAG.get(flag, Outcome.ERROR) is outcome)
    return derived


def _flags(written: Any) -> list[str]:
    if not isinstance(written, str):
        return []
    flags = (flag.strip() for flag in written.split(","))
    return [flag for flag in flags if flag not in ("", "-") and flag not in _HARMLESS]


def _concerns(found: Mapping[str, Any]) -> bool:
    return bool(found.get("method", "POST") == "POST")


ENVOY = ReadyMap(_RULES, _derive, _concerns)
