from __future__ import annotations

import contextlib
import socket

import pytest
import requests
from starlette.responses import PlainTextResponse

from support.waiting import eventually
from vllm_observe.serve import connection

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_REQUEST = REQUEST[:-2] + b"Connection: close\r\n\r\n"


async def hello(scope, receive, send):
    await PlainTextResponse("hello")(scope, receive, send)


async def large(scope, receive, send):
    await PlainTextResponse("x" * 20_000_000)(scope, receive, send)


@pytest.fixture
def _short(monkeypatch):
    monkeypatch.setattr(connection, "_FIRST_REQUEST_S", 0.3)
    monkeypatch.setattr(connection, "_NEXT_REQUEST_S", 0.3)


def connect(listener):
    return socket.create_connection(listener.address, timeout=5)


def all_of(client):
    """What the other side still sends."""
    with client.makefile("rb") as file:
        return file.read()


def is_cut(client):
    """Whether the other side ends the connection, within the socket's own timeout."""
    with contextlib.suppress(ConnectionResetError):
        while client.recv(1 << 20):
            pass
    return True


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHo", REQUEST[:-2] + b"Content-Length: 9\r\n\r\nhalf"]
)
def test_a_client_that_never_sends_a_whole_request_is_cut(serve, sent):
    with connect(serve(hello)) as client:
        client.sendall(sent)
        assert is_cut(client)


@pytest.mark.usefixtures("_short")
def test_a_client_that_sends_its_second_request_for_ever_is_cut(serve):
    with connect(serve(hello)) as client:
        client.sendall(REQUEST)
        assert client.recv(1000)
        client.sendall(b"GET / HT")
        assert is_cut(client)


@pytest.mark.usefixtures("_short")
def test_a_client_that_does_not_take_its_answer_in_is_cut(serve):
    listener = serve(large)
    with connect(listener) as client:
        client.sendall(REQUEST)
        assert client.recv(100)
        open_ones = listener._server.server_state.connections
        eventually(lambda: not open_ones, within=5, what="the connection to be cut")


def test_pipelined_requests_are_all_answered(serve):
    with connect(serve(hello)) as client:
        client.sendall(REQUEST * 2 + LAST_REQUEST)
        assert all_of(client).count(b"hello") == 3


def test_clients_that_only_wait_do_not_keep_another_out(serve, monkeypatch):
    monkeypatch.setattr(connection, "_MAX_CONNECTIONS", 5)
    listener = serve(hello)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connect(listener)) for _ in range(20)]
        assert requests.get(listener.url, timeout=5).text == "hello"
        assert is_cut(waiting[0])
        waiting[-1].sendall(LAST_REQUEST)
        assert all_of(waiting[-1]).endswith(b"hello")
