"""A recorded vLLM: what a real one printed under load, extended in time and served over HTTP.

The two ``.prom`` files beside this module are the /metrics page of vLLM 0.32.0 with 8 slots while an
app kept 24 requests in flight, untouched and one second apart. Load begins here as it did there: from
nothing counted to the first page, then to the second, and from there on at that second's rates.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any, NamedTuple

from vllm_observe.clock import Clock

__all__ = ["MODEL", "SLOTS", "VERSION", "RecordedServer", "Recording"]

VERSION = "0.32.0"
MODEL = "tiny"
#: The server's --max-num-seqs. As every vLLM, it does not tell.
SLOTS = 8

#: Seconds of load before the first page: its 6,546 tokens at the 1,256 a second between the two.
_RAMP_S = 5.2
#: What a vLLM without requests has at 0, counters apart.
_WITH_REQUESTS = ("vllm:num_requests_", "vllm:kv_cache_usage_perc")
#: Gauges that hold a time of day: they move to the time at which the recording is played.
_TIMES = ("process_start_time_seconds", "_created")
_COUNTED = ("counter", "histogram", "summary")


class _Line(NamedTuple):
    """A sample of the two pages."""

    series: str
    first: float
    later: float
    counted: bool

    @property
    def name(self) -> str:
        return self.series.partition("{")[0]

    def at(self, load_s: float, shift_s: float) -> float:
        """Return the value after so many seconds of load, below 0 before any.

        What was whole stays whole. A bucket's values in time lie between its neighbours', as both
        pages and the increase between them do.
        """
        if self.counted:
            value = self._count(max(0.0, load_s))
            return float(math.floor(value)) if self.first.is_integer() and self.later.is_integer() else value
        if self.name.endswith(_TIMES):
            return self.first + shift_s
        if load_s < 0:
            return 0.0 if self.name.startswith(_WITH_REQUESTS) else self.first
        return self.later if int(load_s) % 2 else self.first

    def _count(self, load_s: float) -> float:
        if load_s < _RAMP_S:
            return self.first * load_s / _RAMP_S
        return self.first + (self.later - self.first) * (load_s - _RAMP_S)


class Recording:
    """The pages of a server by the seconds of load that it has seen.

    Args:
        started_at: when the server started, in seconds since the Unix epoch.
    """

    def __init__(self, *, started_at: float) -> None:
        self._lines = list(_read())
        start = next(line for line in self._lines if isinstance(line, _Line) and line.name == _TIMES[0])
        self._shift_s = started_at - start.first

    def page(self, load_s: float) -> bytes:
        """Return the page after so many seconds of load; below 0 there was none yet."""
        text = "".join(
            f"{line.series} {line.at(load_s, self._shift_s)!r}\n" if isinstance(line, _Line) else line + "\n"
            for line in self._lines
        )
        return text.encode()


def _read() -> Iterator[_Line | str]:
    """Read both pages, which have the same lines in the same order but for the numbers."""
    files = resources.files(__package__)
    pages = [
        files.joinpath(name).read_text("utf-8").splitlines()
        for name in ("saturated.prom", "saturated-1s-later.prom")
    ]
    kind = ""
    for first, later in zip(*pages, strict=True):
        if first.startswith("#"):
            kind = first.rpartition(" ")[2] if first.startswith("# TYPE ") else kind
            yield first
        else:
            series, _, value = first.rpartition(" ")
            yield _Line(series, float(value), float(later.rpartition(" ")[2]), kind in _COUNTED)


class RecordedServer(ThreadingHTTPServer):
    """Plays the recording on a free port of the loopback.

    Attributes:
        url: its address.
        load_at: when the load begins, on the monotonic clock; to be set as soon as that is known.
    """

    daemon_threads = True

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.load_at = math.inf
        self._recording = Recording(started_at=clock.wall())
        self._clock = clock

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client hang up; tell of any other fault."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes]:
        """Return the status, the content type and the body for a path, as vLLM does."""
        if path == "/metrics":
            page = self._recording.page(self._clock.monotonic() - self.load_at)
            return HTTPStatus.OK, "text/plain; version=1.0.0; charset=utf-8", page
        if path in _ANSWERS:
            return HTTPStatus.OK, "application/json", _ANSWERS[path]
        return HTTPStatus.NOT_FOUND, "application/json", b'{"detail":"Not Found"}'


_MODEL = {"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": 2048}
_ANSWERS = {
    "/health": b"",
    "/version": json.dumps({"version": VERSION}).encode(),
    "/v1/models": json.dumps({"object": "list", "data": [_MODEL]}).encode(),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: RecordedServer

    def do_GET(self) -> None:
        """Answer."""
        status, content_type, body = self.server.answer(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Leave the terminal to the demo."""
