"""The port of a simulated vLLM: closed until the model is loaded, and whenever there is no process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from vllm_observe.sim.http.server import SimulatedVllm

__all__ = ["Port"]

#: What may still be answered when the server is told to end, in seconds.
_GRACE_S = 1
#: In which connections that were accepted come to be known, in seconds.
_SETTLE_S = 0.02


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program: there may be several servers, one after the other, in it."""
        yield


class Port:
    """The port of a simulated vLLM: open while it has a process that has loaded its model.

    Args:
        vllm: whose port it is.
        host: an address of this machine.
        port: 0 takes any free one.

    Raises:
        OSError: the address is wrong or taken.
    """

    def __init__(self, vllm: SimulatedVllm, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._vllm = vllm
        self._listening: socket.socket | None = _listen(host, port)
        self.host, self.port = self._listening.getsockname()[:2]
        self._server: _Server | None = None
        self._closing = False
        if not vllm.conductor.deployment.loaded:
            self._shut()

    async def run(self) -> None:
        """Serve until it is closed, as often as there is a process."""
        conductor = self._vllm.conductor
        conductor.at_exit = self._cut
        try:
            while True:
                await conductor.loaded.wait()
                if self._closing:
                    return
                self._listening = self._listening or _listen(self.host, self.port)
                self._server = _Server(_configuration(self._vllm.app))
                await self._server.serve(sockets=[self._listening])
                self._shut()
        finally:
            conductor.at_exit = lambda: None
            self._shut()

    def close(self) -> None:
        """Let ``run`` stop listening, give a second to what is being answered, and return."""
        self._closing = True
        if self._server is not None:
            self._server.should_exit = True

    def _cut(self) -> None:
        """Let the process be gone: no connection outlives it.

        What is being accepted at this moment would be lost, and its client left to wait, if the
        listener were closed under it. So first nobody is accepted any more, and then it is closed.
        """
        server, listening = self._server, self._listening
        if server is None or listening is None:
            self._shut()
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        _abort(server)
        loop.call_later(_SETTLE_S, self._end, server)

    def _end(self, server: _Server) -> None:
        server.should_exit = server.force_exit = True
        for listener in getattr(server, "servers", ()):
            listener.close()
        _abort(server)

    def _shut(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None


def _abort(server: _Server) -> None:
    for connection in list(server.server_state.connections):
        connection.transport.abort()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _configuration(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
