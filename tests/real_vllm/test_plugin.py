"""The plugin inside a real vLLM, installed by ``install-plugin``; the sidecar is told of its log alone.

One play: single requests of every kind, then a crowd for whose prompts and outputs the KV cache is too
small. The client notes what it asked and how long it took; the tests hold the plugin's log against that.
"""

from __future__ import annotations

import collections
import itertools
import json
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from support.joins import Desk
from support.load import App, Use
from support.sidecar import sidecar
from support.vllm import VllmServer, install_vllm
from support.waiting import becomes, eventually
from vllm_observe.model import EdgeRecord, EngineRecord, EngineSample, JoinedRequest, Limits, Outcome, Parts
from vllm_observe.records.format1 import decode

CHAT = {"messages": [{"role": "user", "content": "tell me " * 20}], "max_tokens": 200, "ignore_eos": True}
TEXT = {"prompt": "once upon a time", "max_tokens": 200, "ignore_eos": True}
RESPONSE = {"input": "tell me", "max_output_tokens": 200}
CROWD = 24


@dataclass(frozen=True)
class Asked:
    """A request that the client sent, and what must be found of it."""

    request_id: str
    path: str
    took: float
    outcome: Outcome = Outcome.OK
    status: int | None = 200
    children: int = 1  # engine parts
    streams: bool = False


@dataclass
class Client:
    """Sends requests and notes them.

    Attributes:
        log: the plugin's.
        asked: what must be found, by name.
        too_late: the ids of streams that vLLM had made whole by the time it saw that they were left.
    """

    server: VllmServer
    log: Path
    asked: dict[str, Asked] = field(default_factory=dict)
    too_late: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url

    def ask(self, name: str, path: str, body: dict[str, Any], *, sends_id: bool = True, **expected) -> None:
        headers = {"X-Request-Id": name} if sends_id else {}
        headers |= {"X-Session-ID": f"session-of-{name}", "X-Profile": "coder", "X-Client-Id": "team-a"}
        began = time.monotonic()
        answer = requests.post(self.url + path, json={"model": "tiny", **body}, headers=headers, timeout=60)
        took = time.monotonic() - began
        if answer.ok and "choices" in answer.text and not body.get("stream"):
            assert answer.json()["id"].endswith(f"-{answer.headers['X-Request-Id']}")
        self._note(
            name, answer.headers["X-Request-Id"], path, took, streams=body.get("stream", False), **expected
        )
        assert answer.status_code == self.asked[name].status

    def leave_stream(self, name: str, path: str, body: dict[str, Any]) -> None:
        """Ask for a stream and go away after some of it.

        On two busy cores this process may not be run before vLLM is done, nor vLLM see in time that its
        client left. So vLLM's own counter, which leaves out who left, says whether the engine made it
        whole, and another is asked until one was left in time. The counter is read once the request is
        over for vLLM's server: before that the gauge of those that run may still, or not yet, tell of it.
        """
        for number in range(30):
            served = self.server.total("vllm:request_success_total")
            request_id = f"{name}-{number}"
            began = time.monotonic()
            with requests.post(
                self.url + path,
                json={"model": "tiny", "stream": True, **body},
                headers={"X-Request-Id": request_id},
                stream=True,
                timeout=60,
            ) as answer:
                next(answer.iter_lines())
            took = time.monotonic() - began
            self._await_end(request_id)
            if self.server.total("vllm:request_success_total") == served:
                left = {"outcome": Outcome.ABORT, "children": 0}
                self._note(name, request_id, path, took, streams=True, **left)
                return
            self.too_late.append(request_id)
        pytest.fail("no stream was left in time")

    def _await_end(self, request_id: str) -> None:
        """Wait until the middleware has seen a request end."""
        told = f'"request_id":"{request_id}"'  # the engine's record has another id

        def ended() -> bool:
            return told in self.log.read_text()

        eventually(ended, within=60, what=f"the end of {request_id}")

    def leave(self, name: str, path: str, body: dict[str, Any]) -> None:
        """Ask and go away at once."""
        sent = json.dumps({"model": "tiny", **body})
        head = f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nX-Request-Id: {name}\r\n"
        address = urlsplit(self.url)
        with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
            connection.sendall(f"{head}Content-Length: {len(sent)}\r\n\r\n{sent}".encode())
        self._note(name, name, path, 0.0, outcome=Outcome.ABORT, status=None, children=0)

    def _note(self, name: str, request_id: str, path: str, took: float, **expected) -> None:
        self.asked[name] = Asked(request_id, path, took, **expected)


@dataclass(frozen=True)
class Play:
    """What came of it.

    Attributes:
        asked: the single requests by name.
        too_late: how many streams were left too late: of each both sides' records must be found.
        crowd: the crowd's own log.
        records: what the plugin wrote, as the sidecar reads it.
        joined: what becomes of that, by request id.
        totals: the sidecar's ``join_closed_total`` by parts, and its unparsed lines.
    """

    asked: dict[str, Asked]
    too_late: int
    crowd: list[dict[str, Any]]
    records: list[Any]
    joined: dict[str, list[JoinedRequest]]
    totals: dict[str, float | None]
    text: str
    vllm_log: str

    def of(self, kind: type) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


def single_requests(client: Client) -> None:
    chat, text, response = "/v1/chat/completions", "/v1/completions", "/v1/responses"
    failed = {"outcome": Outcome.ERROR, "children": 0}
    client.ask("chat", chat, CHAT)
    client.ask("chat-without-id", chat, CHAT, sends_id=False)
    client.ask("chat-stream", chat, CHAT | {"stream": True})
    client.ask("chat-two-answers", chat, CHAT | {"n": 2}, children=2)
    client.ask("chat-two-answers-stream", chat, CHAT | {"n": 2, "stream": True}, children=2)
    client.ask("text", text, TEXT)
    client.ask("text-stream", text, TEXT | {"stream": True})
    client.ask("two-prompts", text, TEXT | {"prompt": ["once", "upon a time"]}, children=2)
    client.ask("two-prompts-stream", text, TEXT | {"prompt": ["once", "upon"], "stream": True}, children=2)
    client.ask("response", response, RESPONSE)
    client.ask("response-without-id", response, RESPONSE, sends_id=False)
    client.ask("response-stream", response, RESPONSE | {"stream": True})
    client.ask("session-in-body", chat, CHAT | {"session_id": "from-body"})
    client.ask("id-that-ends-like-a-suffix-9be01f77", chat, CHAT)
    client.ask("cmpl-id-that-begins-like-a-prefix-0", text, TEXT)
    client.ask("bad-value", chat, CHAT | {"max_tokens": -1}, status=400, **failed)
    client.ask("bad-model", chat, CHAT | {"model": "none"}, status=404, **failed)
    client.ask("bad-response", response, {"input": 7}, status=400, **failed)
    client.ask("too-long", text, TEXT | {"prompt": "x " * 3000}, status=400, **failed)
    client.leave_stream("left-stream", chat, CHAT | {"max_tokens": 1800})
    client.leave("left", chat, CHAT | {"max_tokens": 1800})


@pytest.fixture(scope="module")
def play(release: str, folder: Path, tmp_path_factory: pytest.TempPathFactory):
    install_vllm(release)
    place = tmp_path_factory.mktemp("plugin")
    log, program = place / "logs" / "requests.jsonl", Path(sys.executable).with_name("vllm-observe")
    subprocess.run([program, "install-plugin", place / "path"], check=True)
    server = VllmServer(
        release,
        log=folder / "vllm-with-plugin.log",
        options=["--middleware=vllm_observe.plugin.RequestLogMiddleware", "--num-gpu-blocks-override=20"],
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(place / "path"))
        environment.setenv("OBSERVE_PLUGIN_LOG", str(log))
        environment.setenv("OBSERVE_PLUGIN_LOG_MAX_BYTES", str(2 * 1024 * 1024))
        try:
            server.start()
        except AssertionError:
            server.stop()
            raise
    try:
        with sidecar(
            folder / "sidecar-of-plugin.log",
            *("--vllm-url", server.url, "--request-log", str(log)),
            *("--scrape-interval", "1s", "--join-window", "5s"),
        ) as exporter:
            client = Client(server, log)
            single_requests(client)
            app = App(server.url, place / "app.jsonl", uses=[Use("crowd", 300, 600)])
            crowd = app.send(CROWD, at_once=CROWD, name="crowd")
            expected = len(client.asked) + len(client.too_late) + len(crowd)

            def edges():
                return [line for line in log.read_text().splitlines() if '"kind"' not in line]

            eventually(lambda: len(edges()) >= expected, within=10, what="the plugin to write all requests")
            becomes(
                float(expected),
                lambda: sum(
                    exporter.value(f'vllm_observe_join_closed_total{{parts="{parts.value}"}}') or 0
                    for parts in Parts
                ),
                within=30,
            )
            totals = {
                parts.value: exporter.value(f'vllm_observe_join_closed_total{{parts="{parts.value}"}}')
                for parts in Parts
            }
            totals["pending"] = exporter.value("vllm_observe_join_pending")
            page = exporter.page()
            totals["unparsed"] = sum(
                float(line.rpartition(" ")[2])
                for line in page.splitlines()
                if line.startswith("vllm_observe_log_unparsed_total{")
            )
            totals["from plugin"] = 'limits_source="plugin"' in page
    finally:
        server.stop()
    text = log.read_text()
    records = [decode(line.encode()) for line in text.splitlines()]
    joined = collections.defaultdict(list)
    for request in Desk().join(*(each for each in records if isinstance(each, EdgeRecord | EngineRecord))):
        joined[request.request_id].append(request)
    for request_id in client.too_late:  # whether it ended well or was left at its last token
        (left,) = joined.pop(request_id)
        assert left.parts is Parts.BOTH
    vllm_log = (folder / "vllm-with-plugin.log").read_text()
    return Play(client.asked, len(client.too_late), crowd, records, joined, totals, text, vllm_log)


def test_every_request_is_found_once_with_its_outcome_and_its_parts(play):
    found = {
        name: [
            (one.outcome, one.edges[0].status, one.parts, len(one.engines))
            for one in play.joined[asked.request_id]
        ]
        for name, asked in play.asked.items()
    }
    assert found == {
        name: [(asked.outcome, asked.status, Parts.BOTH if asked.children else Parts.EDGE, asked.children)]
        for name, asked in play.asked.items()
    }
    assert len(play.joined) == len(play.asked) + CROWD


def test_the_crowd_is_found_as_its_own_log_has_it(play):
    for told in play.crowd:
        (one,) = play.joined[told["request_id"]]
        (part,) = one.engines
        assert (one.outcome, one.parts) == (Outcome.OK, Parts.BOTH)
        assert one.session_id == told["session_id"]
        assert part.completion_tokens == told["completion_tokens"] == 600
        assert part.prompt_tokens == told["prompt_tokens"]
        assert part.model == "tiny"


def test_the_sidecar_finds_the_same(play):
    served = sum(asked.children > 0 for asked in play.asked.values()) + CROWD
    assert play.totals == {
        "both": served + play.too_late,
        "edge": len(play.asked) + CROWD - served,
        "engine": 0,
        "pending": 0,
        "unparsed": 0,
        "from plugin": True,
    }


def test_the_phases_add_up_to_the_duration(play):
    served = [one for (one,) in play.joined.values() if one.parts is Parts.BOTH]
    assert len(served) > CROWD
    for one in served:
        phases = (one.phases.outside, one.phases.queue, one.phases.prefill, one.phases.decode)
        assert sum(phases) == pytest.approx(one.edges[0].duration_s, rel=0.05), one.request_id


def test_the_duration_is_what_the_client_waited(play):
    # For most, and of the single ones: a crowd's client is not always run when its answer is there.
    shares = [
        play.joined[asked.request_id][0].edges[0].duration_s / asked.took
        for name, asked in play.asked.items()
        if asked.children and not name.startswith("left")
    ]
    assert statistics.median(shares) == pytest.approx(1, abs=0.05)
    assert max(shares) < 1.05


def test_the_crowd_waited_in_the_queue_and_was_preempted(play, release):
    parts = [part for told in play.crowd for part in play.joined[told["request_id"]][0].engines]
    assert max(part.queue_s for part in parts) > 0.1
    if release == "0.32.0":  # told since 0.30
        assert sum(part.preemptions for part in parts) > 0


def test_the_first_token_is_timed_where_the_answer_streams_and_only_there(play):
    for asked in play.asked.values():
        (one,) = play.joined[asked.request_id]
        first = one.edges[0].ttft_s
        assert (first is not None) == asked.streams
        if first is not None:
            assert 0 < first <= one.edges[0].duration_s
            # The engine made the token before the client could get it.
            assert all(first > part.queue_s + part.prefill_s - 0.01 for part in one.engines)


def test_the_crowds_first_tokens_agree_with_what_the_client_saw(play):
    streamed = [told for told in play.crowd if told["stream"]]
    assert len(streamed) == CROWD // 2
    for told in streamed:
        (one,) = play.joined[told["request_id"]]
        assert one.edges[0].ttft_s <= told["duration_s"]
        assert one.edges[0].completion_tokens == told["completion_tokens"]


def test_who_asked_is_known_from_the_headers(play):
    asked = play.asked["response"]
    edge = play.joined[asked.request_id][0].edges[0]
    assert (edge.session_id, edge.profile, edge.client) == ("session-of-response", "coder", "team-a")
    assert edge.path == asked.path


def test_a_session_in_the_body_is_known_where_vllm_reads_it(play, release):
    (one,) = play.joined["session-in-body"]
    reads_it = release == "0.32.0"  # since 0.28
    assert one.session_id == ("from-body" if reads_it else "session-of-session-in-body")


def test_the_limits_and_the_states_are_in_the_log(play, release):
    (limits,) = play.of(Limits)
    assert (limits.max_num_seqs, limits.num_gpu_blocks, limits.vllm_version) == (8, 20, release)
    samples = play.of(EngineSample)
    assert max(sample.running for sample in samples) > 1
    assert max(sample.waiting for sample in samples) > 1
    assert all(later.at - sooner.at > 0.9 for sooner, later in itertools.pairwise(samples))


def test_no_prompt_and_no_output_is_in_the_log(play):
    assert "tell me" not in play.text
    assert "once" not in play.text
    assert all(len(line) < 1000 for line in play.text.splitlines())


def test_the_plugin_had_no_fault(play):
    assert "writes no more request records" not in play.vllm_log
    assert "dropped" not in play.vllm_log
    assert "vllm-observe writes request records to" in play.vllm_log
    assert json.loads(play.text.splitlines()[0])["kind"] == "limits"
