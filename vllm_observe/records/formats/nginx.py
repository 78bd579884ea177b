"""nginx's access log, as ``log_format … escape=json`` writes it: exporters/nginx.conf is the format.

Its keys are nginx's own variables, so a JSON log that was there before is most likely read too. nginx
writes every number as text, and ``-`` or nothing where it has none.

What nginx does not know is left out. ``$upstream_header_time`` is no time to the first token: vLLM sends
a stream's headers at once, before it has made any.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from vllm_observe.model import Outcome
from vllm_observe.records.formats.ready import ReadyMap, at

__all__ = ["NGINX"]

_RULES = {
    "ts": at("msec"),
    "request_id": at("request_id"),
    "session_id": at("http_x_session_id"),
    "profile": at("http_x_profile"),
    "client": at("http_x_client_id"),
    "path": at("request_uri"),
    "status": at("status"),
    "duration_s": at("request_time"),
    "trace_id": at("http_traceparent"),
}
_STREAMS = {"text/event-stream": True, "application/json": False}


def _derive(found: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    derived: dict[str, Any] = {}
    if isinstance(sent := found.get("http_x_request_id") or found.get("request_id"), str):
        derived["request_id"] = _text(sent)
    if str(named.get("status")).startswith("2"):  # an error's own page tells nothing of what was asked for
        kind = str(found.get("sent_http_content_type")).partition(";")[0]
        derived["stream"] = _STREAMS.get(kind)
        # 499 is for who leaves before the answer has begun. In the midst of a stream the status is 200, and
        # only this variable tells. It stays "OK" where vLLM broke off.
        if found.get("request_completion") == "":
            derived["outcome"] = Outcome.ABORT.value
    return derived


def _text(value: str) -> str:
    """Read what a client sent: UTF-8, and where it is none, one character a byte."""
    if value.isascii():
        return value
    with contextlib.suppress(UnicodeEncodeError):  # half of a surrogate pair, which nginx does not write
        raw = value.encode("utf-8", "surrogateescape")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return raw.decode("latin-1")
    return value


def _concerns(found: Mapping[str, Any]) -> bool:
    return bool(found.get("request_method", "POST") == "POST")


NGINX = ReadyMap(_RULES, _derive, _concerns, _text)
