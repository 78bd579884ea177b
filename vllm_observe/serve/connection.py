"""A connection that does not wait for ever: uvicorn's, with bounds on what a client can hold."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["KEEP_ALIVE_S", "Connection"]

#: How long a connection may wait for its next request; longer than between two scrapes.
KEEP_ALIVE_S = 75
#: How long a new connection may take to send its first request whole, and any connection to take an
#: answer in and send the next. uvicorn itself watches only connections that are wholly silent.
_FIRST_REQUEST_S = 10.0
_NEXT_REQUEST_S = KEEP_ALIVE_S + 5.0
#: Open connections of a listener. Beyond it the one that has waited longest is cut.
_MAX_CONNECTIONS = 100


class Connection(H11Protocol):
    """One client's connection."""

    _timer: asyncio.TimerHandle | None = None
    waits_since = 0.0  # on the loop's clock

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Begin to wait for the first request, and make room if there are too many who wait."""
        super().connection_made(transport)
        self._await_request(_FIRST_REQUEST_S)
        if len(self.connections) > _MAX_CONNECTIONS:
            waiting = [other for other in self.connections if isinstance(other, Connection) and other.waits]
            min(waiting, key=lambda other: other.waits_since).transport.abort()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._await_request(_NEXT_REQUEST_S)  # first: uvicorn may begin the next one in its turn
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of what the connection holds."""
        super().connection_lost(exc)
        self.transport.close()  # uvicorn leaves it open where the loss was an error
        if self._timer is not None:
            self._timer.cancel()

    @property
    def waits(self) -> bool:
        """Whether it waits for a request, or for its client to take an answer in."""
        # uvicorn's annotation leaves out that there is no cycle before the first request.
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]

    def _await_request(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.waits_since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self._give_up, self.cycle)

    def _give_up(self, last_cycle: object) -> None:
        if self.cycle is last_cycle or self.cycle.more_body:  # no request has come whole since
            self.transport.abort()
