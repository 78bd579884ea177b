"""One request on its way through the server: what was asked, what was answered, when, and how it ended."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, MutableMapping
from typing import Any

from vllm_observe.plugin.answers import error_type, failure, has_token, is_plain
from vllm_observe.plugin.names import bounded
from vllm_observe.plugin.process import Process
from vllm_observe.plugin.response_ids import METADATA
from vllm_observe.plugin.sessions import SESSION

__all__ = ["Exchange", "Message", "Scope", "is_inference"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]

_REQUEST_ID = b"x-request-id"
#: What clients send that have no id but a header for it, and what nobody could find a request by.
_NO_ID = frozenset((b"", b"-", b"None", b"null", b"undefined"))

_INFERENCE = re.compile(
    r"(?:(?:/cohere|/inference)?/v[0-9]+)?/"
    r"(?:chat/completions(?:/batch)?|completions|responses|messages|chat|generate|invocations"
    r"|embeddings|embed|pooling|classify|score|generative_scoring|rerank|audio/(?:transcriptions|translations))"
)
_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

_FAILED = 400
_HANDLED: Mapping[type[Exception], int] = {
    ValueError: 400,
    TypeError: 400,
    OverflowError: 400,
    NotImplementedError: 501,
}
_BY_STATUS = {408: "timeout", 429: "rejected", 503: "rejected", 504: "timeout"}


def _status_of(error: Exception, scope: Scope) -> int:
    """Return what vLLM's outermost layer, past the middleware, answers where an error reaches it.

    Releases in which that layer has a handler of vLLM's take some errors for the client's.
    """
    if Exception not in getattr(scope.get("app"), "exception_handlers", ()):
        return 500
    return next((status for kind, status in _HANDLED.items() if isinstance(error, kind)), 500)


def is_inference(scope: Scope) -> bool:
    """Say whether a request asks a model for something."""
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    return _INFERENCE.fullmatch(_path(scope)) is not None


def _path(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path") or "")


class Exchange:
    """Watches a request: its parts are told to it, in their order, and at the end it makes the record.

    Attributes:
        scope: what to give to vLLM in place of the request's own: the same, with an id.
    """

    def __init__(self, scope: Scope, process: Process) -> None:
        settings = process.settings
        self._process = process
        self._began = process.monotonic()
        self._state: dict[str, Any] = scope.setdefault("state", {})
        path = _path(scope)
        headers = list(scope["headers"])
        told = _first_of_each(headers)
        self._id = told.get(_REQUEST_ID, b"")
        if self._id.strip() in _NO_ID:
            self._id = uuid.uuid4().hex.encode()
            headers = [*(pair for pair in headers if pair[0].lower() != _REQUEST_ID), (_REQUEST_ID, self._id)]
        self.scope: Scope = {**scope, "headers": headers}
        self._is_response = path.endswith("/responses")
        if self._is_response:
            process.response_ids.begin(self._state, self._request_id)
        self._asked = {
            "profile": _text(told.get(settings.profile_header)),
            "client": _text(told.get(settings.client_header)),
            "path": path,
            "trace_id": _trace_id(told.get(b"traceparent", b"")),
        }
        self._session = _text(told.get(settings.session_header))

        self._status: int | None = None
        self._streams: bool | None = None
        self._has_chunk = False
        self._first_token: float | None = None
        self._ended: float | None = None
        self._failure: str | None = None
        self._error: str | None = None
        self._complete = False
        self._left = False

    @property
    def _request_id(self) -> str:
        # As Starlette reads a header, so that it is the same as in vLLM's id.
        return bounded(self._id.decode("latin-1"))

    def received(self, message: Message) -> None:
        """Take note of what came from the client."""
        if message["type"] == "http.disconnect" and not self._complete:
            self._leave()

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self._ended = self._process.monotonic()

    def learns_nothing(self, message: Message) -> bool:
        """Say whether a part of the answer can pass unwatched: nearly every token after the first."""
        if self._first_token is None or not message.get("more_body", False):
            return False
        # Of a memoryview this is a copy, of bytes it is none.
        return is_plain(bytes(message.get("body", b"")))

    def sending(self, message: Message) -> Message:
        """Return what to send in place of a part of the answer: the same, its head with the id."""
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            if not self._left:
                self._status = message["status"]
                kind = _first_of_each(headers).get(b"content-type", b"")
                self._streams = kind.startswith(b"text/event-stream")
            if all(name.lower() != _REQUEST_ID for name, _ in headers):
                headers.append((_REQUEST_ID, self._id))
            return {**message, "headers": headers}
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._complete = not self._left
        return message

    def sent(self, message: Message) -> None:
        """Take note of a part of the answer that was sent."""
        if message["type"] != "http.response.body" or self._left:
            return
        if chunk := message.get("body"):
            self._read(bytes(chunk))
        if self._complete:
            self._ended = self._process.monotonic()

    def _read(self, chunk: bytes) -> None:
        first, streams = not self._has_chunk, self._streams is True
        self._has_chunk = True
        if self._status is not None and self._status >= _FAILED:
            if first:
                self._error = error_type(chunk)
            return
        if streams and self._first_token is None and has_token(chunk, is_response=self._is_response):
            self._first_token = self._process.monotonic()
        if self._failure is None and (failed := failure(chunk, streams=streams, first=first)):
            self._failure = failed
            self._error = error_type(chunk) if failed == "error" else None

    def end(self, error: BaseException | None) -> None:
        """Write the request's record.

        Args:
            error: what ended it from within, if anything did.
        """
        if self._is_response:
            self._process.response_ids.end(self._state)
        if error is not None and not self._complete:
            if not isinstance(error, Exception) or isinstance(error, OSError):
                self._leave()  # cancelled, or there is nobody any more to send to
            elif not self._left:
                self._status = self._status or _status_of(error, self.scope)
                self._error = type(error).__name__[:64]
        self._process.sink.put({name: value for name, value in self._record().items() if value is not None})

    def _record(self) -> dict[str, Any]:
        now = self._process.monotonic()
        ended = now if self._ended is None else self._ended
        first_token = self._first_token
        answered = self._status is not None and self._status < _FAILED
        return {
            "ts": round(self._process.wall() - (now - ended), 6),
            "request_id": self._request_id,
            "session_id": self._resolved_session() or self._session,
            **self._asked,
            "stream": self._streams if answered else None,
            "status": self._status,
            "outcome": self._outcome(),
            "error": self._error,
            "duration_s": round(ended - self._began, 6),
            "ttft_s": None if first_token is None else round(first_token - self._began, 6),
            **_usage(self._state.get(METADATA)),
        }

    def _resolved_session(self) -> str | None:
        found = self._state.get(SESSION)
        return bounded(found) if isinstance(found, str) and found else None

    def _outcome(self) -> str:
        if self._left:
            return "abort"
        if not self._complete:
            return "error"
        if self._status is not None and self._status >= _FAILED:
            return _BY_STATUS.get(self._status, "error")
        return self._failure or "ok"


def _first_of_each(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return {name.lower(): value for name, value in reversed(headers)}


def _text(value: bytes | None) -> str | None:
    if not value:
        return None
    try:
        return bounded(value.decode())
    except UnicodeDecodeError:
        return bounded(value.decode("latin-1"))


def _trace_id(traceparent: bytes) -> str | None:
    found = _TRACE.fullmatch(traceparent.strip())
    return found[1].decode() if found else None


def _usage(metadata: object) -> Mapping[str, int | None]:
    """Return the tokens that vLLM noted, where it did: at the end of the endpoints that generate."""
    usage = getattr(metadata, "final_usage_info", None)
    details = getattr(usage, "prompt_tokens_details", None)
    return {
        "prompt_tokens": _count(getattr(usage, "prompt_tokens", None)),
        "completion_tokens": _count(getattr(usage, "completion_tokens", None)),
        "cached_tokens": _count(getattr(details, "cached_tokens", None)),
    }


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
