"""A real nginx in front of the simulated vLLM: each way a request can end, from nginx's log to the join."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from support.joins import Desk
from support.logs import Followed
from support.programs import free_port, running
from support.waiting import eventually
from vllm_observe.clock import ManualClock, SystemClock
from vllm_observe.config import RequestLog
from vllm_observe.model import EdgeRecord, EngineRecord, JoinedRequest, Outcome, Parts
from vllm_observe.records.formats import decoder
from vllm_observe.records.reader import RecordReader
from vllm_observe.records.source import Source

FRAGMENT = Path(__file__).parents[2] / "exporters/nginx.conf"
CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {fragment};
    upstream first_is_down {{ server 127.0.0.1:{closed}; server 127.0.0.1:{vllm}; }}
    server {{
        listen 127.0.0.1:{nginx};
        access_log {log} vllm_observe if=$vllm_observe_asks;
        proxy_set_header X-Request-Id $vllm_observe_request_id;
        proxy_http_version 1.1;
        proxy_buffering off;
        location / {{ proxy_pass http://127.0.0.1:{vllm}; }}
        location /impatient/ {{ proxy_pass http://127.0.0.1:{vllm}/; proxy_read_timeout 300ms; }}
        location /down/ {{ proxy_pass http://127.0.0.1:{closed}/; }}
        location /retry/ {{ proxy_pass http://first_is_down/; }}
    }}
}}
"""
CHAT = "/v1/chat/completions"
#: A simulated second, and more, of decoding.
LONG = 200


class Told(NamedTuple):
    """What nginx's log says, by id, and the requests that it and the plugin's log make together."""

    edges: dict[str, EdgeRecord]
    joined: dict[str, JoinedRequest]


class Client:
    """Sends requests through nginx, each with its own id."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, name: str | None, path: str = CHAT, *, tokens: int = 2, **options) -> requests.Response:
        """Send one request; ``options`` are those of requests."""
        body = {
            "model": "simulated",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": tokens,
            "stream": options.get("stream", False),
        }
        headers = {"X-Session-ID": "sess-1", "X-Profile": "coder"} | ({"X-Request-Id": name} if name else {})
        return requests.post(self._url + path, json=body, headers=headers, **{"timeout": 20, **options})


@pytest.fixture(scope="module")
def told(nginx: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("nginx")
    vllm, port, closed = free_port(), free_port(), free_port()
    log, plugin = folder / "nginx.jsonl", folder / "plugin.jsonl"
    (folder / "nginx.conf").write_text(
        CONFIGURATION.format(folder=folder, fragment=FRAGMENT, log=log, vllm=vllm, nginx=port, closed=closed)
    )
    simulated = [sys.executable, "-m", "vllm_observe.sim", "--port", str(vllm), "--log", plugin]
    proxy = [nginx, "-c", folder / "nginx.conf", "-e", folder / "nginx-error.log"]
    url = f"http://127.0.0.1:{port}"
    with (
        running(simulated, ready=f"http://127.0.0.1:{vllm}/health", log=folder / "sim.log"),
        running(proxy, ready=f"{url}/health", log=folder / "nginx.log"),
    ):
        _play(Client(url))
        eventually(lambda: len(log.read_bytes().splitlines()) == 9, within=20, what="nine lines of nginx's")
        eventually(lambda: plugin.read_bytes().count(b'"request_id":"impatient"'), within=20, what="the last")
    return _read(log, plugin)


def _play(client: Client) -> None:
    client.ask("counted", "/tokenize")  # asks no model, so it is in no log
    client.ask("whole")
    client.ask(None, tokens=3)
    with client.ask("stream", stream=True) as answer:
        assert answer.content
    with client.ask("left-midstream", tokens=LONG, stream=True) as answer:
        next(answer.iter_lines())
    with contextlib.suppress(requests.Timeout):
        client.ask("left-early", tokens=LONG, timeout=0.3)
    client.ask("down", f"/down{CHAT}")
    client.ask("retry", f"/retry{CHAT}")
    client.ask("bad", tokens=-1)
    client.ask("impatient", f"/impatient{CHAT}", tokens=LONG)


def _read(log: Path, plugin: Path) -> Told:
    decode = decoder(RequestLog(path=str(log), format="nginx"), clock=ManualClock())
    followed = Followed(Source(str(log), decode), plugin)
    reader = RecordReader(follower=followed.follower, clock=SystemClock())
    records = [record for record in reader.poll() if isinstance(record, EdgeRecord | EngineRecord)]
    assert sum(reader.unparsed.values()) == 0
    followed.follower.close()
    desk = Desk()
    for record in records:
        desk.joiner.add(record)
    edges = {record.request_id: record for record in records if record.source == str(log)}
    return Told(edges, {request.request_id: request for request in desk.joiner.drain()})


@pytest.mark.parametrize(
    ("name", "status", "outcome"),
    [
        ("whole", 200, Outcome.OK),
        ("stream", 200, Outcome.OK),
        ("left-midstream", 200, Outcome.ABORT),
        ("left-early", 499, Outcome.ABORT),
        ("impatient", 504, Outcome.TIMEOUT),
        ("down", 502, Outcome.ERROR),
        ("retry", 200, Outcome.OK),
        ("bad", 400, Outcome.ERROR),
    ],
)
def test_every_line_becomes_the_record_of_how_its_request_ended(told, name, status, outcome):
    record = told.edges[name]
    assert (record.status, record.outcome) == (status, outcome)
    assert (record.session_id, record.profile) == ("sess-1", "coder")
    assert record.stream is {"whole": False, "retry": False, "stream": True, "left-midstream": True}.get(name)


@pytest.mark.parametrize("name", ["impatient", "left-early"])
def test_a_duration_is_in_seconds(told, name):
    # Both waited 0.3 s. A busy machine may add to that, but not so much that it could be milliseconds.
    assert 0.29 <= told.edges[name].duration_s <= 30


@pytest.mark.parametrize("name", ["whole", "stream", "retry"])
def test_a_served_request_meets_its_engine_record_and_the_middlewares(told, name):
    request = told.joined[name]
    assert (request.parts, request.outcome) == (Parts.BOTH, Outcome.OK)
    assert len(request.edges) == 2
    assert request.session_id == "sess-1"
    assert request.completion_tokens == 2


def test_a_request_without_an_id_meets_its_engine_record_by_nginxs_own(told):
    (own,) = told.edges.keys() - {
        "whole",
        "stream",
        "left-midstream",
        "left-early",
        "impatient",
        "down",
        "retry",
        "bad",
    }
    assert told.joined[own].parts is Parts.BOTH
    assert told.joined[own].completion_tokens == 3


@pytest.mark.parametrize(
    ("name", "outcome", "edges"),
    [
        ("left-midstream", Outcome.ABORT, 2),
        ("left-early", Outcome.ABORT, 2),
        ("impatient", Outcome.TIMEOUT, 2),  # the middleware saw nginx leave
        ("down", Outcome.ERROR, 1),  # nothing behind nginx saw it
    ],
)
def test_what_failed_at_nginx_is_told_as_nginx_saw_it(told, name, outcome, edges):
    request = told.joined[name]
    assert (request.outcome, len(request.edges)) == (outcome, edges)
