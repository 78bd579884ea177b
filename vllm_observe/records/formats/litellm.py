"""The LiteLLM proxy's log: a ``StandardLoggingPayload`` a line, as its callbacks are given it.

LiteLLM passes vLLM's answer's id on, so that ``id`` is the engine's; where there was no answer it is
LiteLLM's own. ``messages``, ``response`` and the errors' texts are never looked at. ``status`` and
``trace_id`` mean other things here than in record format 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm_observe.model import Outcome
from vllm_observe.records.formats.ready import ReadyMap, at
from vllm_observe.records.values import bad, moment

__all__ = ["LITELLM"]

_RULES = {
    "ts": at("endTime"),
    "request_id": at("id"),
    "session_id": at("metadata.requester_metadata.session_id"),
    "profile": at("metadata.requester_metadata.profile"),
    "client": at("metadata.user_api_key_alias"),
    "model": at("model"),
    "path": at("metadata.user_api_key_request_route"),
    "stream": at("stream"),
    "status": None,
    "error": None,
    "trace_id": None,
    "prompt_tokens": at("prompt_tokens"),
    "completion_tokens": at("completion_tokens"),
    "cached_tokens": at("metadata.usage_object.prompt_tokens_details.cached_tokens"),
}


def _derive(found: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    began, ended = _time(found, "startTime"), _time(found, "endTime")
    derived: dict[str, Any] = {}
    if began is not None and ended is not None:
        derived["duration_s"] = ended - began
    first = _time(found, "completionStartTime")
    # Without a stream LiteLLM takes the end for the first token.
    if found.get("stream") is True and began is not None and first is not None:
        derived["ttft_s"] = first - began
    status = found.get("status")
    if status == "success":
        derived["outcome"] = Outcome.OK.value
    elif status == "failure":
        derived.update(_failure(found.get("error_information")))
    elif status is not None:
        raise bad("status", "is neither success nor failure")
    return derived


def _time(found: Mapping[str, Any], name: str) -> float | None:
    value = found.get(name)
    return None if value is None else moment(value, name)


def _failure(information: Any) -> dict[str, Any]:
    """Describe a failure by its class and its HTTP status; without a status its outcome is an error."""
    information = information if isinstance(information, Mapping) else {}
    code = information.get("error_code")
    failure = {"error": information.get("error_class") or "error"}
    is_status = isinstance(code, str) and code.isascii() and code.isdecimal() and len(code) == len("429")
    return {**failure, "status": code} if is_status else {**failure, "outcome": Outcome.ERROR.value}


LITELLM = ReadyMap(_RULES, _derive)
