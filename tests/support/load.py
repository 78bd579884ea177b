"""An app that asks vLLM: many chat requests at a time, each written down as an app writes its own log."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import requests

CHAT = "/v1/chat/completions"


class Use(NamedTuple):
    """What one of the app's uses of the model asks for. A character of the prompt is a token."""

    profile: str
    prompt_characters: int
    max_tokens: int
    streams: bool = True


USES = (Use("assistant", 100, 150), Use("coder", 400, 600), Use("summarizer", 1500, 100))
SESSIONS = 7


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
        """
        writing = threading.Lock()

        def ask(number: int) -> dict[str, Any]:
            record = self._ask(f"{name}-{number}", number)
            with writing, self.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
            return record

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(ask, range(count)))

    def _ask(self, request_id: str, number: int) -> dict[str, Any]:
        use = self.uses[number % len(self.uses)]
        session = f"session-{number % SESSIONS}"
        stream = use.streams and number % 2 == 1
        record = {
            "request_id": request_id,
            "session_id": session,
            "profile": use.profile,
            "model": self.model,
            "path": CHAT,
            "stream": stream,
        }
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "x" * use.prompt_characters}],
            "max_tokens": use.max_tokens,
            "ignore_eos": True,
            "stream": stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
        }
        headers = {"X-Request-Id": request_id, "X-Session-ID": session, "X-Profile": use.profile}
        started = time.monotonic()
        try:
            with requests.post(
                self.url + CHAT, json=body, headers=headers, stream=stream, timeout=120
            ) as answer:
                record["status"] = answer.status_code
                record |= _streamed(answer, started) if stream else _usage(answer.json())
        except requests.RequestException as error:
            record |= {"outcome": "error", "error": type(error).__name__}
        return record | {"ts": time.time(), "duration_s": time.monotonic() - started}


def _streamed(answer: requests.Response, started: float) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for chunk in _chunks(answer):
        if chunk.get("choices") and "ttft_s" not in told:
            told["ttft_s"] = time.monotonic() - started
        told |= _usage(chunk)
    return told


def _chunks(answer: requests.Response) -> Iterator[dict[str, Any]]:
    for line in answer.iter_lines():
        if line.startswith(b"data: {"):
            yield json.loads(line.removeprefix(b"data: "))


def _usage(message: dict[str, Any]) -> dict[str, Any]:
    usage = message.get("usage") or {}
    return {key: usage[key] for key in ("prompt_tokens", "completion_tokens") if key in usage}
