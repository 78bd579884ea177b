"""A real HTTP server on a free loopback port, whose answers a test scripts byte by byte if it likes."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """One request as the server got it."""

    path: str
    headers: dict[str, str]  # names in lower case
    connection: tuple[str, int]  # the client's end: the same for two requests over one connection


class Handler(BaseHTTPRequestHandler):
    """Answers from the script."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpDouble

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(Asked(self.path, headers, self.client_address))
        self.server.answers.get(self.path, whole(b"", status=404))(self)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Stay silent."""


#: What a test scripts for a path: writes to ``handler.wfile`` whatever it likes.
Answer = Callable[[Handler], None]


class HttpDouble(ThreadingHTTPServer):
    """The server: ``answers`` by path, in reply to which ``asked`` grows. Other paths are 404."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.stopping = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Take it that a client which hangs up has its reasons."""


@contextlib.contextmanager
def http_double(tls: ssl.SSLContext | None = None) -> Iterator[HttpDouble]:
    """Serve while the block runs."""
    with HttpDouble() as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            server.url = server.url.replace("http:", "https:")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


def whole(body: bytes, *, status: int = 200, **headers: str) -> Answer:
    """A complete answer; ``content_type="text/plain"`` makes a header."""

    def answer(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def raw(data: bytes) -> Answer:
    """These bytes, headers and all, and then the end of the connection."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


def drip(data: bytes, *, after: bytes = b"", every: float = 0.02) -> Answer:
    """First some bytes at once, then one at a time without end: the data again and again."""

    def answer(handler: Handler) -> None:
        handler.wfile.write(after)
        while not handler.server.stopping.is_set():
            for byte in data:
                handler.wfile.write(bytes([byte]))
                handler.server.stopping.wait(every)

    return answer


def silence(handler: Handler) -> None:
    """No byte, until the server stops."""
    handler.server.stopping.wait(30)


def in_turn(*answers: Answer) -> Answer:
    """Another answer for each request; the last one stays."""
    left = list(answers)

    def answer(handler: Handler) -> None:
        (left.pop(0) if len(left) > 1 else left[0])(handler)

    return answer
