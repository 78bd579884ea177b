"""The middleware: stands around vLLM's HTTP server and writes a record of each request to a model.

It is pure ASGI, holds nothing back and parses nothing. Whatever goes wrong in it, the request goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vllm_observe.plugin.exchange import Exchange, Message, Scope, is_inference
from vllm_observe.plugin.process import Process, shared
from vllm_observe.plugin.sessions import note_sessions

__all__ = ["RequestLogMiddleware"]

Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class RequestLogMiddleware:
    """Gives each inference request an ``X-Request-Id`` where it has none, and writes its edge record.

    vLLM constructs it with the application alone; ``process`` is for tests.
    """

    def __init__(self, app: App, *, process: Process | None = None) -> None:
        self._app = app
        self._process = process or shared()
        self._fuse = self._process.fuse
        self._fuse.run(note_sessions, self._fuse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to vLLM; an error of vLLM's passes through."""
        exchange = self._fuse.run(self._begin, scope)
        if exchange is None:
            await self._app(scope, receive, send)
            return
        run = self._fuse.run

        async def watched_receive() -> Message:
            message = await receive()
            run(exchange.received, message)
            return message

        async def noting_send(message: Message) -> None:
            message = run(exchange.sending, message) or message
            await send(message)
            run(exchange.sent, message)

        def watched_send(message: Message) -> Awaitable[None]:
            return send(message) if run(exchange.learns_nothing, message) else noting_send(message)

        try:
            await self._app(exchange.scope, watched_receive, watched_send)
        except BaseException as error:
            run(exchange.end, error)
            raise
        run(exchange.end, None)

    def _begin(self, scope: Scope) -> Exchange | None:
        return Exchange(scope, self._process) if is_inference(scope) else None
