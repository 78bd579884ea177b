"""A connection that can be cut: what bounds a whole answer, where a timeout bounds each read of it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

__all__ = ["CuttableAdapter"]


class CuttableAdapter(HTTPAdapter):
    """One keep-alive connection at a time, which a deadline or another thread can cut.

    The timeouts of requests start anew with each read: a server that drips a byte a second, in its
    headers already, would hold a scrape for hours. Here a watchdog shuts the socket down when the time
    is over, and whoever reads from it sees the connection end. Looking a host up and connecting
    to it cannot be cut: the resolver's timeout bounds the one, requests' the other, for each address.

    Attributes:
        was_cut: whether the connection was cut since ``within`` was entered.
        connecting: whether a new connection was begun since then; else an idle one was used again.
    """

    def __init__(self) -> None:
        self.was_cut = False
        self.connecting = False
        # Not the connection: it forgets its socket before it reads a body that ends with the stream.
        self._socket: socket.socket | None = None
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pool as requests does, of connections that report to this adapter."""
        super().init_poolmanager(*args, **kwargs)
        began, opened = self._began, self._opened

        class Http(HTTPConnection):
            def connect(self) -> None:
                began()
                super().connect()
                opened(self.sock)

        class Https(HTTPSConnection):
            def connect(self) -> None:
                began()
                super().connect()
                opened(self.sock)

        class HttpPool(HTTPConnectionPool):
            ConnectionCls = Http

        class HttpsPool(HTTPSConnectionPool):
            ConnectionCls = Https

        self.poolmanager.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Cut the connection if the block takes longer than so many seconds."""
        self.was_cut = self.connecting = False
        watchdog = threading.Timer(seconds, self.cut)
        watchdog.daemon = True
        watchdog.start()
        try:
            yield
        finally:
            watchdog.cancel()
            watchdog.join()  # a cut that comes late must not hit the next block

    def cut(self) -> None:
        """Shut the connection down, now or as soon as it is open; any thread may call this."""
        self.was_cut = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # closed already
                # Not SSLSocket's own method, which would take the session from under the reader.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _began(self) -> None:
        self.connecting = True
        self._socket = None

    def _opened(self, opened: socket.socket) -> None:
        self._socket = opened
        if self.was_cut:  # while there was nothing to shut down yet
            self.cut()
