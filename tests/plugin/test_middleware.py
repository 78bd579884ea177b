from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from vllm_observe.model import Outcome
from vllm_observe.plugin.exchange import Exchange
from vllm_observe.plugin.middleware import RequestLogMiddleware
from vllm_observe.records.format1 import decode

DEAD_ENGINE = Path(__file__).resolve().parents[1] / "data" / "captures" / "vllm-0.16.0-engine-dead"
CHAT = "/v1/chat/completions"
JSON = [(b"content-type", b"application/json")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]
ROLE = (
    b'data: {"id":"chatcmpl-a","object":"chat.completion.chunk","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
)
TOKEN = (
    b'data: {"id":"chatcmpl-a","object":"chat.completion.chunk","choices":[{"index":0,'
    b'"delta":{"content":"x"},"logprobs":null,"finish_reason":null}]}\n\n'
)
DONE = b"data: [DONE]\n\n"


class Server:
    """Plays uvicorn and a client around the middleware, and vLLM inside it."""

    def __init__(self, process, clock, records):
        self.process = process
        self.clock = clock
        self.records = records
        self.sent = []
        self.seen = []  # the scopes that vLLM got

    def call(self, app, *, path=CHAT, headers=(), method="POST", left=False, **scope):
        """Send a request through; with ``left`` its client is gone from the start."""

        async def receive():
            return {"type": "http.disconnect"} if left else {"type": "http.request", "body": b"{}"}

        async def send(message):
            self.sent.append(message)

        async def inner(scope, receive, send):
            self.seen.append(scope)
            await app(scope, receive, send)

        scope = {"type": "http", "method": method, "path": path, "headers": list(headers), **scope}
        asyncio.run(RequestLogMiddleware(inner, process=self.process)(scope, receive, send))

    @property
    def record(self):
        (record,) = self.records
        return record

    def id_of_answer(self):
        return dict(self.sent[0]["headers"]).get(b"x-request-id")


@pytest.fixture
def server(process, clock, records):
    return Server(process, clock, records)


def answers(clock, *chunks, status=200, headers=JSON, ends=True, usage=None, seconds=1.0, then=None):
    """vLLM answering one request; each chunk takes some seconds."""

    async def app(scope, receive, send):
        if usage is not None:
            scope["state"]["request_metadata"] = SimpleNamespace(
                request_id="chatcmpl-a", final_usage_info=usage
            )
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        for chunk in chunks:
            clock.advance(seconds)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if then is not None:
            await then(receive)
        if ends:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def test_a_record_says_who_asked_what_and_how_it_ended(server, clock):
    usage = SimpleNamespace(
        prompt_tokens=12, completion_tokens=3, prompt_tokens_details=SimpleNamespace(cached_tokens=8)
    )
    headers = [
        (b"x-request-id", b"a"),
        (b"x-session-id", "für-17".encode()),
        (b"x-profile", b"coder"),
        (b"x-client-id", b"team-a"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ]
    server.call(answers(clock, b'{"id":"chatcmpl-a"}', usage=usage), headers=headers)
    assert server.record == {
        "ts": 1_800_000_001.0,
        "request_id": "a",
        "session_id": "für-17",
        "profile": "coder",
        "client": "team-a",
        "path": CHAT,
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "stream": False,
        "status": 200,
        "outcome": "ok",
        "duration_s": 1.0,
        "prompt_tokens": 12,
        "completion_tokens": 3,
        "cached_tokens": 8,
    }


def test_the_sidecar_reads_the_record(server, clock):
    server.call(answers(clock, ROLE, TOKEN, headers=EVENTS), headers=[(b"x-request-id", b"a")])
    record = decode(json.dumps(server.record).encode())
    assert (record.request_id, record.outcome, record.status) == ("a", Outcome.OK, 200)
    assert (record.stream, record.ttft_s, record.duration_s) == (True, 2.0, 2.0)


def test_an_id_of_the_clients_goes_through_as_it_is(server, clock):
    headers = [(b"accept", b"*/*"), (b"X-Request-ID", b"a-1")]
    server.call(answers(clock), headers=headers)
    assert server.seen[0]["headers"] == headers
    assert server.record["request_id"] == "a-1"
    assert server.id_of_answer() == b"a-1"


@pytest.mark.parametrize("headers", [[], [(b"x-request-id", b"")], [(b"x-request-id", b"undefined")]])
def test_a_request_without_an_id_gets_one_that_vllm_the_answer_and_the_record_share(server, clock, headers):
    server.call(answers(clock), headers=headers)
    ids = [value for name, value in server.seen[0]["headers"] if name == b"x-request-id"]
    assert len(ids) == 1
    assert len(ids[0]) == 32
    assert ids == [server.record["request_id"].encode()] == [server.id_of_answer()]


def test_an_answer_that_bears_the_id_already_is_not_given_another(server, clock):
    server.call(answers(clock, headers=[*JSON, (b"X-Request-Id", b"a")]), headers=[(b"x-request-id", b"a")])
    assert [name.lower() for name, _ in server.sent[0]["headers"]].count(b"x-request-id") == 1


def test_the_first_of_several_ids_counts_as_it_does_for_vllm(server, clock):
    server.call(answers(clock), headers=[(b"x-request-id", b"one"), (b"x-request-id", b"two")])
    assert server.record["request_id"] == "one"


def test_an_endless_id_is_cut_in_the_record_and_whole_for_vllm(server, clock):
    """In the record it is what the sidecar makes of the same id in a proxy's log."""
    server.call(answers(clock), headers=[(b"x-request-id", b"a" * 60_000)])
    of_a_log = {"ts": 1.0, "request_id": "a" * 60_000, "status": 200}
    assert server.record["request_id"] == decode(json.dumps(of_a_log).encode()).request_id
    assert len(server.record["request_id"]) == 256
    assert server.seen[0]["headers"] == [(b"x-request-id", b"a" * 60_000)]


@pytest.mark.parametrize(
    ("scope", "watched"),
    [
        ({"path": "/v1/completions"}, True),
        ({"path": "/v1/responses"}, True),
        ({"path": "/v1/embeddings"}, True),
        ({"path": "/llm/v1/messages", "root_path": "/llm"}, True),
        ({"path": "/v1/messages", "root_path": "/llm"}, True),
        ({"path": "/metrics", "method": "GET"}, False),
        ({"path": "/health", "method": "GET"}, False),
        ({"path": "/v1/responses/resp_1", "method": "GET"}, False),
        ({"path": "/v1/responses/resp_1/cancel"}, False),
        ({"path": "/tokenize"}, False),
        ({"path": "/v1/load_lora_adapter"}, False),
        ({"path": CHAT, "method": "OPTIONS"}, False),
    ],
)
def test_only_requests_to_a_model_are_watched(server, clock, scope, watched):
    server.call(answers(clock), **scope)
    assert len(server.records) == watched
    assert (server.id_of_answer() is not None) == watched


def test_what_is_not_http_passes_through_untouched(process, records):
    seen = []

    async def app(scope, receive, send):
        seen.append((scope, receive, send))

    for kind in ("lifespan", "websocket"):
        scope, receive, send = {"type": kind, "path": "/v1/realtime"}, object(), object()
        asyncio.run(RequestLogMiddleware(app, process=process)(scope, receive, send))
        assert seen.pop() == (scope, receive, send)
    assert records == []


def test_chunks_pass_at_once_and_unchanged(server, clock):
    server.call(answers(clock, ROLE, TOKEN, DONE, headers=EVENTS))
    bodies = [message["body"] for message in server.sent if message["type"] == "http.response.body"]
    assert bodies == [ROLE, TOKEN, DONE, b""]


def test_a_chunk_may_be_any_kind_of_bytes(server, clock):
    chunks = [memoryview(ROLE), bytearray(TOKEN), memoryview(b'data: {"error":{"type":"X"}}\n\n')]
    server.call(answers(clock, *chunks, headers=EVENTS))
    assert (server.record["ttft_s"], server.record["outcome"]) == (2.0, "error")


def test_the_first_token_counts_and_not_the_head_or_the_role(server, clock):
    server.call(answers(clock, ROLE, TOKEN, TOKEN, DONE, headers=EVENTS))
    assert server.record["ttft_s"] == 2.0
    assert server.record["duration_s"] == 4.0


def test_an_answer_that_does_not_stream_has_no_first_token(server, clock):
    server.call(answers(clock, b'{"choices":[{"message":{"content":"x"}}]}'))
    assert "ttft_s" not in server.record


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, "error"),
        (401, "error"),
        (404, "error"),
        (408, "timeout"),
        (429, "rejected"),
        (500, "error"),
        (503, "rejected"),
        (504, "timeout"),
    ],
)
def test_an_error_has_its_status_its_outcome_and_its_type_alone(server, clock, status, outcome):
    body = b'{"error":{"message":"\\"type\\":\\"secret\\"","type":"BadRequestError","param":null,"code":400}}'
    server.call(answers(clock, body, status=status), headers=[(b"x-request-id", b"a")])
    assert server.record == {
        "ts": 1_800_000_001.0,
        "request_id": "a",
        "path": CHAT,
        "status": status,
        "outcome": outcome,
        "error": "BadRequestError",
        "duration_s": 1.0,
    }
    assert decode(json.dumps(server.record).encode()).outcome.value == outcome


@pytest.mark.parametrize("headers", [JSON, EVENTS])
def test_an_error_under_200_is_no_good_end(server, clock, headers):
    error = (
        b'{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError",'
        b'"param":null,"code":500}}'
    )
    event = b"data: " + error + b"\n\n"
    server.call(answers(clock, *([TOKEN, event, DONE] if headers is EVENTS else [error]), headers=headers))
    assert server.record["status"] == 200
    assert server.record["outcome"] == "error"
    assert server.record["error"] == "EngineDeadError"


@pytest.mark.parametrize("answer", ["not-stream", "stream", "completions"])
def test_what_a_dead_engine_answers_under_200_is_an_error(server, clock, answer):
    head, _, body = (DEAD_ENGINE / f"{answer}.http").read_bytes().partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    headers = [tuple(line.split(b": ", 1)) for line in lines]
    server.call(answers(clock, body, status=int(status.split()[1]), headers=headers))
    assert server.record["status"] == 200
    assert (server.record["outcome"], server.record["error"]) == ("error", "EngineDeadError")


def test_the_engines_abort_is_no_good_end(server, clock):
    last = TOKEN.replace(b'"finish_reason":null', b'"finish_reason":"abort"')
    server.call(answers(clock, TOKEN, last, DONE, headers=EVENTS))
    assert server.record["outcome"] == "abort"


def test_a_client_that_leaves_during_the_stream_is_an_abort_with_the_status_it_got(server, clock):
    async def gone(receive):
        await receive()
        clock.advance(5.0)  # until vLLM is done with it

    server.call(answers(clock, ROLE, TOKEN, headers=EVENTS, ends=False, then=gone), left=True)
    assert server.record["outcome"] == "abort"
    assert server.record["status"] == 200
    assert server.record["ttft_s"] == 2.0
    assert server.record["duration_s"] == 2.0
    assert server.record["ts"] == 1_800_000_002.0


def test_what_vllm_answers_to_a_client_that_left_was_never_seen(server, clock):
    async def app(scope, receive, send):
        clock.advance(3.0)
        await receive()
        await answers(clock, b"null")(scope, receive, send)

    server.call(app, left=True)
    assert server.record["outcome"] == "abort"
    assert "status" not in server.record
    assert server.record["duration_s"] == 3.0


def test_a_client_that_leaves_with_the_whole_answer_has_not_aborted(server, clock):
    async def app(scope, receive, send):
        await answers(clock, b"{}")(scope, receive, send)
        await receive()

    server.call(app, left=True)
    assert server.record["outcome"] == "ok"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RuntimeError("secret"), "error"),
        (ConnectionResetError("secret"), "abort"),
        (asyncio.CancelledError(), "abort"),
    ],
)
def test_what_vllm_raises_goes_through_and_is_written_down(server, clock, error, outcome):
    async def app(scope, receive, send):
        await answers(clock, TOKEN, headers=EVENTS, ends=False)(scope, receive, send)
        raise error

    with pytest.raises(type(error)):
        server.call(app)
    assert server.record["outcome"] == outcome
    assert server.record.get("error") == ("RuntimeError" if outcome == "error" else None)
    assert "secret" not in json.dumps(server.record)


def test_an_error_before_any_answer_is_the_500_that_vllm_makes_of_it(server):
    async def app(*_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        server.call(app)
    assert (server.record["status"], server.record["outcome"]) == (500, "error")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TypeError, 400),
        (UnicodeError, 400),
        (OverflowError, 400),
        (NotImplementedError, 501),
        (KeyError, 500),
    ],
)
def test_an_error_before_any_answer_is_what_the_layer_outside_makes_of_it(process, records, error, status):
    """A Starlette with a handler like vLLM 0.24.0's, in which a bad request may come to light as a TypeError."""
    sent = []

    async def fails(_):
        raise error

    async def handler(*_):
        return Response(status_code=status)

    async def receive():
        return {"type": "http.request", "body": b"{}"}

    async def send(message):
        sent.append(message)

    app = Starlette(
        routes=[Route(CHAT, fails, methods=["POST"])],
        middleware=[Middleware(RequestLogMiddleware, process=process)],
        exception_handlers={Exception: handler},
    )
    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": [], "query_string": b""}
    with pytest.raises(error):
        asyncio.run(app(scope, receive, send))
    assert records[0]["status"] == sent[0]["status"] == status
    assert (records[0]["outcome"], records[0]["error"]) == ("error", error.__name__)


def test_an_answer_that_just_stops_is_an_error(server, clock):
    server.call(answers(clock, TOKEN, headers=EVENTS, ends=False))
    assert server.record["outcome"] == "error"


def test_vllms_own_finding_of_the_session_counts_more_than_the_header(server, clock):
    async def app(scope, receive, send):
        scope["state"]["vllm_observe_session"] = "from-body"
        await answers(clock)(scope, receive, send)

    server.call(app, headers=[(b"x-session-id", b"from-header")])
    assert server.record["session_id"] == "from-body"


def test_headers_have_the_names_that_the_settings_give_them(server, clock, process):
    server.process = process._replace(settings=process.settings._replace(session_header=b"x-chat"))
    server.call(answers(clock), headers=[(b"X-Chat", b"7"), (b"x-session-id", b"8")])
    assert server.record["session_id"] == "7"


def test_the_id_of_a_response_is_learnt_while_it_is_answered(server, clock, process):
    async def app(scope, receive, send):
        scope["state"]["request_metadata"] = SimpleNamespace(request_id="resp_1", final_usage_info=None)
        assert process.response_ids.client_id("resp_1_0") == "a"
        await answers(clock)(scope, receive, send)

    server.call(app, path="/v1/responses", headers=[(b"x-request-id", b"a")])
    assert server.record["request_id"] == "a"
    assert process.response_ids.client_id("resp_1_1") == "a"


def test_a_fault_in_the_plugin_never_touches_a_request_and_is_told_once(server, clock, process, caplog):
    class Broken:
        def put(self, _):
            raise RuntimeError("secret")

    server.process = process._replace(sink=Broken())
    for _ in range(3):
        server.call(answers(clock, b"{}"))
    assert [message["type"] for message in server.sent] == [
        "http.response.start",
        "http.response.body",
        "http.response.body",
    ] * 3
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "RuntimeError" in warning
    assert "secret" not in warning


def test_a_fault_at_any_point_lets_the_request_through(server, clock, process, monkeypatch):
    for point in ("__init__", "received", "learns_nothing", "sending", "sent", "end"):

        def fail(*_):
            raise ValueError

        with monkeypatch.context() as patch:
            patch.setattr(Exchange, point, fail)
            server.sent.clear()
            process.fuse.blown = False
            server.call(answers(clock, TOKEN, headers=EVENTS))
        assert [message.get("body") for message in server.sent] == [None, TOKEN, b""], point


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        object(),
        SimpleNamespace(final_usage_info=SimpleNamespace(prompt_tokens="x", completion_tokens=-1)),
    ],
)
def test_a_usage_of_another_form_is_left_out(server, clock, metadata):
    async def app(scope, receive, send):
        scope["state"]["request_metadata"] = metadata
        await answers(clock)(scope, receive, send)

    server.call(app)
    assert server.record.keys().isdisjoint({"prompt_tokens", "completion_tokens", "cached_tokens"})
    assert server.record["outcome"] == "ok"
