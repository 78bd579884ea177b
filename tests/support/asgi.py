"""Requests to a simulated vLLM on a clock that stands still unless a test, or a client, turns it."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from support.sims import deployment
from vllm_observe.clock import ManualClock
from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.process import Process
from vllm_observe.plugin.response_ids import ResponseIds
from vllm_observe.plugin.settings import Settings as PluginSettings
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.http.server import Settings, SimulatedVllm

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


@dataclass
class Got:
    """What a client got; ``status`` is 0 where there was no answer.

    Attributes:
        chunks: the parts of the body, as they were sent, with the simulation's time.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[tuple[float, bytes]] = field(default_factory=list)
    complete: bool = False

    @property
    def text(self) -> str:
        """The whole body."""
        return b"".join(chunk for _, chunk in self.chunks).decode()

    @property
    def json(self) -> Any:
        """The whole body, read."""
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        """The events of a stream; the last is ``"[DONE]"``."""
        found = [line.removeprefix("data: ") for line in self.text.split("\n\n") if line]
        return [one if one == "[DONE]" else json.loads(one) for one in found]


@dataclass
class Ask:
    """A request. Its client leaves after so many seconds, if it has no answer by then."""

    path: str
    body: Any = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    leaves_after: float = math.inf


class Records(list):
    """Takes records in the place of the plugin's writer."""

    def put(self, record: dict[str, Any]) -> None:
        self.append({"kind": "edge", **record})

    def keep(self, _: str, record: dict[str, Any]) -> None:
        self.append(record)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The records of one kind."""
        return [record for record in self if record["kind"] == kind]


class Stage:
    """A simulated vLLM, its clients, and its plugin's records.

    Args:
        server: what is served; steps of a second, unless a test wants others.
        settings: of the server.
    """

    def __init__(self, server: Deployment | None = None, **settings: Any) -> None:
        self.clock = ManualClock(wall=1_800_000_000.0)
        self.records = Records()
        process = Process(
            PluginSettings.read({}),
            Fuse(),
            self.records,
            ResponseIds(),
            wall=self.clock.wall,
            monotonic=self.clock.monotonic,
        )
        self.server = server or deployment()
        self.vllm = SimulatedVllm(self.server, Settings(**settings), clock=self.clock, process=process)
        self.conductor = self.vllm.conductor

    def ask(self, path: str, body: Any = None, *, method: str = "POST", **values: Any) -> Got:
        """Ask, and let time pass until there is an answer."""
        return self.ask_all(Ask(path, body, method, **values))[0]

    def get(self, path: str) -> Got:
        """Get a page."""
        return self.ask(path, method="GET")

    def ask_all(self, *asked: Ask, at_most: float = 10_000.0) -> list[Got]:
        """Ask all at once, and let time pass until all have their answers, or so many seconds."""
        return asyncio.run(self._ask_all(asked, self.conductor.now + at_most))

    def pass_time(self, seconds: float) -> None:
        """Let time pass without anybody waiting."""
        self.clock.advance(seconds)
        self.conductor.advance()

    async def _ask_all(self, asked: tuple[Ask, ...], until: float) -> list[Got]:
        gone = [asyncio.Event() for _ in asked]
        for one, event in zip(asked, gone, strict=True):
            if math.isfinite(one.leaves_after):
                self.conductor.at(self.conductor.now + one.leaves_after, event.set)
        got = [Got() for _ in asked]
        tasks = [asyncio.ensure_future(self._one(*each)) for each in zip(asked, got, gone, strict=True)]
        while True:
            for _ in range(10):  # whoever was woken goes on until he waits again
                await asyncio.sleep(0)
            at = self.conductor.next_event_at
            if all(task.done() for task in tasks) or at > until:
                break
            self.clock.advance(max(at - self.conductor.now, 1e-6))
            self.conductor.advance()
        for event in gone:
            event.set()
        await asyncio.gather(*tasks)
        return got

    async def _one(self, asked: Ask, got: Got, gone: asyncio.Event) -> None:
        content = asked.body if isinstance(asked.body, bytes) else json.dumps(asked.body).encode()
        body = [{"type": "http.request", "body": b"" if asked.body is None else content, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if body:
                return body.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if gone.is_set():
                return
            if message["type"] == "http.response.start":
                got.status = message["status"]
                got.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                got.complete = not message.get("more_body", False)
                if chunk := message.get("body"):
                    got.chunks.append((self.conductor.now, bytes(chunk)))

        path, _, query = asked.path.partition("?")
        headers = {"content-length": str(len(content)), **asked.headers}
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": asked.method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "server": ("test", 80),
        }
        await self.vllm.app(scope, receive, send)
