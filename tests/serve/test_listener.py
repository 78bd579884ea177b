from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
import requests
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from vllm_observe.errors import ConfigError
from vllm_observe.serve.listener import Listener, TlsFiles

TLS = Path(__file__).parents[1] / "data" / "tls"


async def hello(scope, receive, send):
    """A whole application: says hello to everything."""
    await PlainTextResponse("hello")(scope, receive, send)


def all_of(client):
    """What the other side still sends."""
    with client.makefile("rb") as file:
        return file.read()


def get(listener, path="/", **options):
    return requests.get(listener.url + path, timeout=5, **options)


@pytest.fixture(scope="module")
def plain():
    """A listener that several tests ask, without TLS."""
    listener = Listener(hello, "127.0.0.1:0", flag="--listen")
    listener.start()
    yield listener
    assert listener.close(5.0)


@pytest.fixture
def pair(tmp_path):
    """A certificate and its key, in files that a test may change."""
    for name in ("crt", "key"):
        shutil.copy(TLS / f"first.{name}", tmp_path / f"tls.{name}")
    return tmp_path / "tls.crt", tmp_path / "tls.key"


def test_it_serves_on_a_port_of_the_systems_choice(plain):
    assert plain.address.host == "127.0.0.1"
    assert plain.url == f"http://127.0.0.1:{plain.address.port}"
    assert get(plain).text == "hello"


def test_it_says_nothing_about_the_program_that_serves(plain):
    assert "server" not in get(plain).headers


def test_two_listeners_serve_in_one_process(plain, serve):
    assert [get(listener).text for listener in (plain, serve(hello))] == ["hello", "hello"]


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_it_serves_on_ipv6_or_says_that_it_cannot(serve):
    if not has_ipv6():
        with pytest.raises(ConfigError, match=r"^--listen: cannot listen on \[::1\]:0: "):
            serve(hello, "[::1]:0")
        return
    listener = serve(hello, "[::1]:0")
    assert listener.url.startswith("http://[::1]:")
    assert get(listener).text == "hello"
    port = serve(hello, "[::]:0").address.port  # all of IPv6 is all of IPv4 too
    assert requests.get(f"http://127.0.0.1:{port}/", timeout=5).text == "hello"


def test_a_name_with_addresses_of_both_families_means_ipv4(serve):
    assert serve(hello, "localhost:0").address.host == "127.0.0.1"


def test_a_taken_address_is_told_at_the_start_with_the_flag_and_the_mend(plain):
    taken = str(plain.address)
    with pytest.raises(
        ConfigError, match=f"^--listen: cannot listen on {taken}: another program .* choose another"
    ):
        Listener(hello, taken, flag="--listen")


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        ("203.0.113.7:9809", "cannot listen on 203.0.113.7:9809: no interface of this host has that address"),
        ("[fe80::1%nosuchcard]:9809", "no host fe80::1%nosuchcard is known here"),
        ("a..b:9809", "no host a..b is known here"),
        ("9809", "must be HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_bound_is_told_in_one_line(listen, message):
    with pytest.raises(ConfigError, match=message) as refused:
        Listener(hello, listen, flag="--listen")
    assert str(refused.value).startswith("--listen")
    assert "\n" not in str(refused.value)


def test_what_is_asked_between_binding_and_starting_is_answered():
    listener = Listener(hello, "127.0.0.1:0", flag="--listen")
    with socket.create_connection(listener.address, timeout=5) as early:
        early.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        listener.start()
        assert all_of(early).endswith(b"hello")
    listener.close(5.0)


def test_a_listener_that_never_started_frees_its_address():
    listener = Listener(hello, "127.0.0.1:0", flag="--listen")
    assert listener.close(5.0)
    assert Listener(hello, str(listener.address), flag="--listen").close(5.0)


def test_after_closing_nobody_listens_and_the_address_is_free(serve):
    listener = serve(hello)
    get(listener)
    assert listener.close(5.0)
    with pytest.raises(requests.ConnectionError):
        get(listener)
    assert get(serve(hello, str(listener.address))).text == "hello"


def test_closing_finishes_the_answer_that_is_under_way(serve):
    asked, go_on = threading.Event(), threading.Event()

    def slow(_):
        asked.set()
        go_on.wait(5)
        return PlainTextResponse("done")

    listener = serve(Starlette(routes=[Route("/", slow)]))
    answers = []
    client = threading.Thread(target=lambda: answers.append(get(listener).text))
    client.start()
    assert asked.wait(5)
    threading.Timer(0.3, go_on.set).start()
    assert listener.close(5.0)
    client.join(5)
    assert answers == ["done"]


def test_closing_does_not_wait_for_a_client_that_does_not_read(serve):
    async def endless(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    listener = serve(endless)
    with socket.create_connection(listener.address, timeout=5) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(100)
        began = time.monotonic()
        assert listener.close(1.5)
        assert time.monotonic() - began < 2.0


def test_closing_cuts_idle_connections_at_once(serve):
    listener = serve(hello)
    with requests.Session() as session:
        session.get(listener.url, timeout=5)
        began = time.monotonic()
        assert listener.close(5.0)
        assert time.monotonic() - began < 1.0


NO_REQUESTS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
    b"\0" * 1000,
    b"GET / HTTP/1.1\r\n\r\n",  # no Host
    b"GET / FTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
]


def test_bytes_that_are_no_request_harm_nobody_and_are_not_logged(plain, capfd, caplog):
    for sent in NO_REQUESTS:
        with socket.create_connection(plain.address, timeout=5) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert b"hello" not in all_of(client), sent
        assert get(plain).text == "hello"
    assert (caplog.text, capfd.readouterr().err) == ("", "")


def test_headers_without_end_are_not_kept(plain):
    with (
        contextlib.suppress(ConnectionError),  # it hangs up while we still send
        socket.create_connection(plain.address, timeout=5) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 1_000_000)
        assert all_of(client).startswith(b"HTTP/1.1 400 ")
    assert get(plain).text == "hello"


def test_a_websocket_is_not_spoken(plain):
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    assert get(plain, headers=headers).text == "hello"


def test_over_tls_it_serves_who_trusts_its_certificate(serve):
    listener = serve(hello, tls=TlsFiles(certificate=TLS / "first.crt", key=TLS / "first.key"))
    assert listener.url.startswith("https://")
    assert get(listener, verify=str(TLS / "first.crt")).text == "hello"
    with pytest.raises(requests.exceptions.SSLError):
        get(listener, verify=str(TLS / "second.crt"))


def test_plain_http_to_a_tls_listener_is_not_answered_and_not_logged(serve, capfd, caplog):
    listener = serve(hello, tls=TlsFiles(certificate=TLS / "first.crt", key=TLS / "first.key"))
    with pytest.raises(requests.ConnectionError):
        requests.get(f"http://{listener.address}/", timeout=5)
    assert get(listener, verify=str(TLS / "first.crt")).text == "hello"
    assert (caplog.text, capfd.readouterr().err) == ("", "")


def test_tls_begins_with_1_2(serve):
    tls = TlsFiles(certificate=TLS / "first.crt", key=TLS / "first.key")
    listener = serve(hello, tls=tls)
    assert tls.context.minimum_version == ssl.TLSVersion.TLSv1_2
    client = ssl.create_default_context(cafile=TLS / "first.crt")
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(listener.address, timeout=5) as connection,
        client.wrap_socket(connection, server_hostname="localhost") as secured,
    ):
        assert secured.version() == "TLSv1.2"


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        ("first.crt", "second.key", "are no certificate with its key .KEY_VALUES_MISMATCH"),
        ("first.crt", "encrypted.key", "key is encrypted"),
        ("README.md", "first.key", "are no certificate with its key"),
        ("gone.crt", "first.key", "cannot read .*gone.crt: No such file"),
        ("first.crt", "gone.key", "cannot read .*gone.key: No such file"),
        ("first.crt", ".", "cannot read .*: Is a directory"),
        ("first.crt", "a\0b", "cannot read"),
    ],
)
def test_files_that_are_no_certificate_with_its_key_are_named_in_one_line(certificate, key, message):
    with pytest.raises(ConfigError, match=message) as refused:
        TlsFiles(certificate=TLS / certificate, key=TLS / key)
    assert "\n" not in str(refused.value)


def presented(listener):
    """The certificate that a listener shows."""
    return ssl.get_server_certificate(listener.address)


def test_a_renewed_certificate_is_shown_without_a_restart(serve, pair):
    certificate, key = pair
    tls = TlsFiles(certificate=certificate, key=key)
    listener = serve(hello, tls=tls)
    assert presented(listener) == (TLS / "first.crt").read_text()
    shutil.copy(TLS / "second.crt", certificate)
    shutil.copy(TLS / "second.key", key)
    tls.renew()
    assert presented(listener) == (TLS / "second.crt").read_text()


def test_a_half_renewed_certificate_leaves_the_old_one_in_use(serve, pair):
    certificate, key = pair
    tls = TlsFiles(certificate=certificate, key=key)
    listener = serve(hello, tls=tls)
    shutil.copy(TLS / "second.crt", certificate)  # its key is still to come
    tls.renew()
    assert presented(listener) == (TLS / "first.crt").read_text()
    shutil.copy(TLS / "second.key", key)
    tls.renew()
    assert presented(listener) == (TLS / "second.crt").read_text()
