"""The OTLP/HTTP receiver behind a real listener: what a client of the protocol sees."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from vllm_observe.records.otlp import read
from vllm_observe.serve.app import admin_app
from vllm_observe.serve.auth import Credentials
from vllm_observe.serve.listener import Listener
from vllm_observe.serve.traces import DECODED_AT_ONCE, MAX_BODY_BYTES, traces_route

BODY = (Path(__file__).parents[1] / "data/captures/vllm-0.32.0/otlp-body.bin").read_bytes()
PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json"}
GZIP = {"Content-Encoding": "gzip"}
#: A moment after the spans of that body ended.
NOW = 1795983000.0
BAD_SPAN = {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "llm_request"}, {"name": "other"}]}]}]}


@pytest.fixture(scope="module")
def receiver():
    """The URL of a receiver, and what it has taken so far."""
    taken = []

    def take(body, encoding):
        export = read(body, encoding, NOW)
        taken.append(export)
        return export

    app = admin_app(state=dict, auth=Credentials(), extra_routes=[traces_route(take)])
    listener = Listener(app, "127.0.0.1:0", flag="--admin-listen")
    listener.start()
    yield f"{listener.url}/v1/traces", taken
    listener.close(2)


@pytest.fixture
def post(receiver):
    url, taken = receiver
    taken.clear()
    return lambda body, **headers: requests.post(url, body, headers=headers, timeout=10)


def rpc_status(content: bytes) -> str:
    """The message of a google.rpc.Status: its field 2, a string, and no other field."""
    assert content[:2] == bytes((2 << 3 | 2, len(content) - 2))
    return content[2:].decode()


def test_vllms_body_is_taken_and_answered_with_an_empty_response(post, receiver):
    answered = post(BODY, **PROTOBUF)
    assert (answered.status_code, answered.content) == (200, b"")
    assert answered.headers["Content-Type"] == "application/x-protobuf"
    assert len(receiver[1][0].records) == 2


def test_a_packed_body_is_the_same(post, receiver):
    assert post(gzip.compress(BODY), **PROTOBUF, **GZIP).status_code == 200
    assert len(receiver[1][0].records) == 2


def test_json_is_answered_in_json_with_what_was_rejected(post):
    answered = post(json.dumps(BAD_SPAN).encode(), **{"Content-Type": "application/json; charset=utf-8"})
    assert answered.status_code == 200
    assert answered.json() == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": "the first: ts is missing"}
    }


def test_protobuf_is_answered_in_protobuf_with_what_was_rejected(post):
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add().name = "llm_request"
    answered = post(request.SerializeToString(), **PROTOBUF)
    assert answered.status_code == 200
    assert ExportTraceServiceResponse.FromString(answered.content).partial_success.rejected_spans == 1


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (BODY, {}, 415),
        (BODY, {"Content-Type": "text/plain"}, 415),
        (BODY, {**PROTOBUF, "Content-Encoding": "br"}, 415),
        (b"\xff", PROTOBUF, 400),
        (b"{", JSON, 400),
        (BODY, {**PROTOBUF, **GZIP}, 400),
        (gzip.compress(BODY)[:-9], {**PROTOBUF, **GZIP}, 400),
        (gzip.compress(BODY) * 2, {**PROTOBUF, **GZIP}, 400),
        (b"", {**PROTOBUF, **GZIP}, 400),
        (bytes(MAX_BODY_BYTES + 1), PROTOBUF, 413),
        (gzip.compress(bytes(MAX_BODY_BYTES + 1)), {**PROTOBUF, **GZIP}, 413),
        (gzip.compress(b" " * MAX_BODY_BYTES + b"{}"), {**JSON, **GZIP}, 413),
    ],
)
def test_what_cannot_be_taken_is_refused_with_a_status_in_the_requests_encoding(
    post, receiver, body, headers, status
):
    answered = post(body, **headers)
    assert answered.status_code == status
    assert receiver[1] == []
    if headers.get("Content-Type") == "application/x-protobuf":
        assert answered.headers["Content-Type"] == "application/x-protobuf"
        assert rpc_status(answered.content)
    else:
        assert answered.json()["message"]


def test_a_body_at_the_cap_is_taken(post):
    assert post(b" " * (MAX_BODY_BYTES - 2) + b"{}", **JSON).status_code == 200


def test_a_body_of_no_announced_length_is_cut_off_at_the_cap(post):
    piece = bytes(1 << 16)
    try:
        status = post((piece for _ in range(100)), **PROTOBUF).status_code
    except requests.ConnectionError:
        return  # it had answered and hung up before all was sent
    assert status == 413


def test_other_methods_are_not_allowed(receiver):
    assert requests.get(receiver[0], timeout=10).status_code == 405


def test_a_client_that_leaves_in_the_midst_of_its_body_is_no_fault_of_ours(receiver, post, caplog):
    host, port = receiver[0].split("/")[2].split(":")
    head = f"POST /v1/traces HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head.encode() + b"{")
    assert post(b"{}", **JSON).status_code == 200
    assert [entry.message for entry in caplog.records if "request failed" in entry.message] == []


def test_few_bodies_are_decoded_at_a_time_and_the_others_wait():
    """Each may take a hundred megabytes: nobody can have forty decoded at once."""
    one_too_many = threading.Barrier(DECODED_AT_ONCE + 1)
    crowded = []

    def take(body, encoding):
        with contextlib.suppress(threading.BrokenBarrierError):
            crowded.append(one_too_many.wait(0.5))
        return read(body, encoding, NOW)

    def send(_):
        return requests.post(f"{listener.url}/v1/traces", BODY, headers=PROTOBUF, timeout=20)

    app = admin_app(state=dict, auth=Credentials(), extra_routes=[traces_route(take)])
    listener = Listener(app, "127.0.0.1:0", flag="--admin-listen")
    listener.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            assert {answer.status_code for answer in pool.map(send, range(8))} == {200}
        assert not crowded
    finally:
        listener.close(2)
