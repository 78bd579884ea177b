"""What stands around vLLM's paths: the ids of answers, and the counts of them in ``http_*``."""

from __future__ import annotations

import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vllm_observe.sim.http.asked import CHAT, COMPLETIONS
from vllm_observe.sim.http.conductor import Conductor

__all__ = ["CountAnswers", "RequestIdHeaders"]

_UNCOUNTED = frozenset(("/metrics", "/metrics/", "/health", "/load", "/ping", "/version", "/server_info"))
#: Paths that are told apart; all else that nothing answers is one.
_HANDLERS = frozenset(
    (CHAT, COMPLETIONS, "/v1/models", "/sleep", "/wake_up", "/is_sleeping", "/reset_prefix_cache")
)
_NO_HANDLER = "none"
_MOST_DIGITS = 18


class RequestIdHeaders:
    """Gives each answer the request's id, or one of its own, as ``--enable-request-id-headers`` does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        told = Headers(scope=scope).get("x-request-id")

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                headers.append("x-request-id", uuid.uuid4().hex if told is None else told)
                message = {**message, "headers": headers.raw}
            await send(message)

        await self._app(scope, receive, send_with_id)


class CountAnswers:
    """Counts answers, as vLLM's instrumentator does: a stream when it has ended, whoever ended it."""

    def __init__(self, app: ASGIApp, conductor: Conductor) -> None:
        self._app = app
        self._conductor = conductor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["path"] in _UNCOUNTED:
            await self._app(scope, receive, send)
            return
        began = self._conductor.now
        tally = self._conductor.deployment.http  # a process that ends takes its counts along
        status, size = 200, 0  # of an answer that nobody waited for

        async def noting_send(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                size = _length(Headers(raw=message["headers"]))
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        finally:
            tally.count(
                scope["method"],
                scope["path"] if scope["path"] in _HANDLERS else _NO_HANDLER,
                status,
                seconds=self._conductor.now - began,
                request_bytes=_length(Headers(scope=scope)),
                response_bytes=size,
            )


def _length(headers: Headers) -> int:
    told = headers.get("content-length", "")
    return int(told) if told.isascii() and told.isdecimal() and len(told) <= _MOST_DIGITS else 0
