"""An app that asks vLLM: many chat requests at a time, each written down as an app writes its own log."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

CHAT = "/v1/chat/completions"


class Use(NamedTuple):
    """What one of the app's uses of the model asks for. A character of the prompt is a token."""

    profile: str
    prompt_characters: int
    max_tokens: int
    streams: bool = True


USES = (Use("assistant", 100, 150), Use("coder", 400, 600), Use("summarizer", 1500, 100))
SESSIONS = 7
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class App:
    """An app in front of one vLLM server.

    Attributes:
        url: the server, without a path.
        log: the request log it appends to: record format 1, one JSON object a line.
        model: the served model's name.
        uses: what its requests ask for, in turn.
    """

    url: str
    log: Path
    model: str = "tiny"
    uses: Sequence[Use] = USES

    def send(self, count: int, *, at_once: int, name: str) -> list[dict[str, Any]]:
        """Send ``count`` requests, ``at_once`` of them at a time; answer their log records.

        Every output has its full length, so the same call offers the same work. Every other
        request streams where its use does. Request ids are ``NAME-0``, ``NAME-1`` and so on.

        The first ``at_once`` are held back by their last bytes, which then leave in a millisecond. Once
        vLLM keeps the cores busy, our next thread or step may wait for seconds, and a crowd would come
        one by one.
        """
        writing = threading.Lock()
        crowd = [self._begin(f"{name}-{number}", number) for number in range(min(count, at_once))]
        for asked in crowd:
            asked.finish()

        def take(number: int) -> dict[str, Any]:
            asked = crowd[number] if number < len(crowd) else self._begin(f"{name}-{number}", number).finish()
            record = asked.await_answer()
            with writing, self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
            return record

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(take, range(count)))

    def _begin(self, request_id: str, number: int) -> _Asked:
        """Send a request but for its last byte."""
        use = self.uses[number % len(self.uses)]
        session = f"session-{number % SESSIONS}"
        stream = use.streams and number % 2 == 1
        content = {
            "model": self.model,
            "messages": [{"role": "user", "content": "x" * use.prompt_characters}],
            "max_tokens": use.max_tokens,
            "ignore_eos": True,
            "stream": stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
        }
        body = json.dumps(content).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "X-Request-Id": request_id,
            "X-Session-ID": session,
            "X-Profile": use.profile,
        }
        record = {
            "request_id": request_id,
            "session_id": session,
            "profile": use.profile,
            "model": self.model,
            "path": CHAT,
            "stream": stream,
        }
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=TIMEOUT_S)
        started = time.monotonic()
        connection.request("POST", CHAT, body[:-1], headers)
        return _Asked(connection, started, record, body[-1:])


class _Asked(NamedTuple):
    """A request that was sent but for its last byte, and what of its log record is known."""

    connection: HTTPConnection
    started: float  # monotonic
    record: dict[str, Any]
    last_byte: bytes

    def finish(self) -> _Asked:
        """Send the last byte."""
        self.connection.send(self.last_byte)
        return self

    def await_answer(self) -> dict[str, Any]:
        """Read the answer to its end; answer the whole log record."""
        with closing(self.connection):
            answer = self.connection.getresponse()
            told = _streamed(answer, self.started) if self.record["stream"] else _usage(json.load(answer))
        took = time.monotonic() - self.started
        return {**self.record, "status": answer.status, **told, "ts": time.time(), "duration_s": took}


def _streamed(answer: HTTPResponse, started: float) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for chunk in _chunks(answer):
        if chunk.get("choices") and "ttft_s" not in told:
            told["ttft_s"] = time.monotonic() - started
        told |= _usage(chunk)
    return told


def _chunks(answer: HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def _usage(message: dict[str, Any]) -> dict[str, Any]:
    usage = message.get("usage") or {}
    return {key: usage[key] for key in ("prompt_tokens", "completion_tokens") if key in usage}
