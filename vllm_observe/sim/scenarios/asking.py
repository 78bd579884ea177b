"""One request over HTTP, as an app sends it: it measures, and it gives up when its patience ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.model import EdgeRecord, Outcome
from vllm_observe.sim.requests import Arrival
from vllm_observe.sim.scenarios.clients import Heard
from vllm_observe.sim.scenarios.words import messages

__all__ = ["Asking"]

_FAILED, _SERVER_FAILED = 400, 500
_REJECTED = {429, 503}
_DONE = b"data: [DONE]"


class _GaveUpError(Exception):
    """The client's patience is over."""


class _ToldError(Exception):
    """The server told of an error.

    Args:
        kind: its type.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(kw_only=True, eq=False)
class Asking:
    """A request on its way. ``run`` in a thread of its own; any thread may stop it.

    Attributes:
        url: the server, without the path of the request.
        arrival: what is asked.
        model: the model's name.
        said: gives the text of an earlier answer, by its segment's name.
        clock: measures.
        text: what was answered so far.
    """

    url: str
    arrival: Arrival
    model: str
    said: Callable[[str], str | None]
    clock: Clock
    text: str = field(default="", init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _socket: socket.socket | None = field(default=None, init=False)
    _began: float = field(default=0.0, init=False)
    _first_at: float | None = field(default=None, init=False)
    _status: int | None = field(default=None, init=False)
    _usage: dict[str, Any] = field(default_factory=dict, init=False)

    def stop(self) -> None:
        """Leave now."""
        self._stop.set()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def run(self) -> tuple[Heard, EdgeRecord]:
        """Ask, wait for the end, and tell of it: what the client makes of it, and its log's record."""
        self._began = self.clock.monotonic()
        try:
            self._ask()
        except _ToldError as error:
            return self._failed(error.kind)
        except (OSError, HTTPException, ValueError, _GaveUpError) as error:
            if self._stop.is_set():
                return Heard.LEFT, self._record(Outcome.ABORT)
            if isinstance(error, _GaveUpError | TimeoutError):
                return self._gave_up()
            return Heard.FAILED, self._record(Outcome.ERROR, type(error).__name__)
        return Heard.ANSWERED, self._record(Outcome.OK)

    # --- How it ends

    def _gave_up(self) -> tuple[Heard, EdgeRecord]:
        if self.arrival.times_out:
            return Heard.TIMED_OUT, self._record(Outcome.TIMEOUT, "TimeoutError")
        return Heard.LEFT, self._record(Outcome.ABORT)

    def _failed(self, kind: str) -> tuple[Heard, EdgeRecord]:
        if self._status in _REJECTED:
            return Heard.FAILED, self._record(Outcome.REJECTED, kind)
        own_fault = self._status is not None and _FAILED <= self._status < _SERVER_FAILED
        return Heard.INVALID if own_fault else Heard.FAILED, self._record(Outcome.ERROR, kind)

    def _record(self, outcome: Outcome, error: str | None = None) -> EdgeRecord:
        arrival, cached = self.arrival, self._usage.get("prompt_tokens_details") or {}
        return EdgeRecord(
            ts=self.clock.wall(),
            request_id=arrival.request_id,
            outcome=outcome,
            session_id=arrival.session_id,
            profile=arrival.profile,
            client=arrival.client,
            model=self.model,
            path=arrival.path,
            stream=arrival.stream,
            status=self._status,
            error=error,
            duration_s=self.clock.monotonic() - self._began,
            ttft_s=None if self._first_at is None else self._first_at - self._began,
            prompt_tokens=self._usage.get("prompt_tokens"),
            completion_tokens=self._usage.get("completion_tokens"),
            cached_tokens=cached.get("cached_tokens"),
            max_tokens=arrival.max_tokens,
        )

    # --- How it goes

    def _ask(self) -> None:
        if self.clock.wait(self._stop, min(self.arrival.outside_s, self._left())):
            raise _GaveUpError
        place = urlsplit(self.url)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=self._left())
        try:
            connection.connect()
            self._socket = connection.sock
            self._patience()
            connection.request(
                "POST", place.path.rstrip("/") + self.arrival.path, self._body(), self._headers()
            )
            self._patience()
            with connection.getresponse() as response:
                self._status = response.status
                self._read(response)
        finally:
            connection.close()

    def _read(self, response: HTTPResponse) -> None:
        streams = (response.getheader("content-type") or "").startswith("text/event-stream")
        if response.status >= _FAILED or not streams:
            self._patience()
            self._take(_object(response.read()))
            return
        for event in self._events(response):
            self._take(_object(event))

    def _events(self, response: HTTPResponse) -> Iterator[bytes]:
        while True:
            self._patience()
            line = response.readline().strip()
            if line == _DONE:
                return
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ")
            elif response.isclosed():
                raise HTTPException("the stream ended too soon")

    def _take(self, told: dict[str, Any]) -> None:
        """Take note of a part of the answer, or of the whole of it."""
        if self._status is None or self._status >= _FAILED or "error" in told:
            error = told.get("error")
            raise _ToldError(str(error.get("type")) if isinstance(error, dict) else "error")
        for choice in told.get("choices", ()):
            part = choice.get("delta") or choice.get("message") or {}
            if part.get("content"):
                self.text += part["content"]
                if self._first_at is None and self.arrival.stream:
                    self._first_at = self.clock.monotonic()
        self._usage = told.get("usage") or self._usage

    def _body(self) -> bytes:
        arrival = self.arrival
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages(arrival.prompt, self.said),
            "max_tokens": arrival.max_tokens,
            "stream": arrival.stream,
            "vllm_xargs": {"output_tokens": arrival.output_tokens},
        }
        if arrival.stream:
            body["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(body)

    def _headers(self) -> dict[str, str]:
        arrival = self.arrival
        told = {
            "Content-Type": "application/json",
            "X-Request-Id": arrival.request_id,
            "X-Session-ID": arrival.session_id,
            "X-Profile": arrival.profile,
            "X-Client-Id": arrival.client,
        }
        return {name: value for name, value in told.items() if value is not None}

    # --- How long it may take

    def _left(self) -> float:
        left = self.arrival.leaves_after_s - (self.clock.monotonic() - self._began)
        if left <= 0 or self._stop.is_set():
            raise _GaveUpError
        return left

    def _patience(self) -> None:
        """Let the next read wait for no longer than the client does."""
        if self._socket is not None:
            self._socket.settimeout(self._left())


def _object(text: bytes) -> dict[str, Any]:
    found = msgspec.json.decode(text)
    if not isinstance(found, dict):
        raise ValueError("not an object")  # noqa: TRY004  # what came over the wire, no wrong argument
    return found
