from __future__ import annotations

import base64
import contextlib
import gzip
import socket
import ssl
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from prometheus_client.exposition import choose_encoder

from http_double import drip, http_double, in_turn, raw, silence, whole
from vllm_observe.clock import ManualClock
from vllm_observe.engine.address import Address
from vllm_observe.engine.fetch import Fetcher
from vllm_observe.errors import ConfigError, ScrapeError, ScrapeFailure

DATA = Path(__file__).parent.parent / "data"
TLS = DATA / "tls"
SECRET = "sesame-4711"
BODY = b"vllm:num_requests_running 3.0\n"
OK = whole(BODY, content_type="text/plain; version=0.0.4")


@pytest.fixture
def vllm():
    with http_double() as server:
        server.answers["/metrics"] = OK
        yield server


@pytest.fixture
def fetcher():
    """Make fetchers that are closed at the end."""
    with contextlib.ExitStack() as stack:

        def make(url, **settings):
            settings = {"timeout": 5.0, "clock": ManualClock()} | settings
            return stack.enter_context(contextlib.closing(Fetcher(url=url, **settings)))

        yield make


def failure(fetcher):
    with pytest.raises(ScrapeError) as caught:
        fetcher.fetch()
    message = str(caught.value)
    assert "\n" not in message
    assert not any(sign in message for sign in ("0x", "<", "object at", "Pool(", "Caused by", SECRET))
    return caught.value.reason, message


def reason(fetcher):
    return failure(fetcher)[0]


# --- A good answer ------------------------------------------------------------------------------


def test_an_answer_comes_whole_with_its_type_and_its_duration(vllm, fetcher):
    clock = ManualClock()

    def slow(handler):
        clock.advance(0.25)
        OK(handler)

    vllm.answers["/metrics"] = slow
    assert fetcher(vllm.url, clock=clock).fetch() == (BODY, "text/plain; version=0.0.4", 0.25)


@pytest.mark.parametrize(
    ("prefix", "metrics_path", "asked"),
    [
        ("", "/metrics", "/metrics"),
        ("", "/metrics/", "/metrics"),
        ("/", "metrics", "/metrics"),
        ("/a/b/", "/metrics", "/a/b/metrics"),
        ("", "/metrics/?name=x", "/metrics?name=x"),
    ],
)
def test_the_path_is_asked_without_a_slash_at_its_end(vllm, fetcher, prefix, metrics_path, asked):
    vllm.answers[asked] = OK
    fetcher(vllm.url + prefix, metrics_path=metrics_path).fetch()
    assert [request.path for request in vllm.asked] == [asked]


def test_scrapes_share_one_connection(vllm, fetcher):
    scraper = fetcher(vllm.url)
    for _ in range(3):
        scraper.fetch()
    assert len({request.connection for request in vllm.asked}) == 1


def test_what_is_asked_for_makes_prometheus_client_keep_the_colons(vllm, fetcher):
    fetcher(vllm.url).fetch()
    accept = vllm.asked[0].headers["accept"]
    assert choose_encoder(accept)[1] == "text/plain; version=0.0.4; charset=utf-8"
    assert "openmetrics" not in accept  # releases before 0.23 look for no more than the word


@pytest.mark.parametrize(("compression", "asked"), [(False, "identity"), (True, "gzip")])
def test_compression_is_asked_for_only_where_it_is_switched_on(vllm, fetcher, compression, asked):
    vllm.answers["/metrics"] = whole(gzip.compress(BODY), content_encoding="gzip")
    assert fetcher(vllm.url, compression=compression).fetch().body == BODY
    assert vllm.asked[0].headers["accept-encoding"] == asked


def test_a_chunked_answer_is_put_together(vllm, fetcher):
    vllm.answers["/metrics"] = raw(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nvllm:\r\n3\r\nx 1\r\n0\r\n\r\n"
    )
    assert fetcher(vllm.url).fetch().body == b"vllm:x 1"


def test_neither_proxies_of_the_environment_nor_a_netrc_are_used(vllm, fetcher, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert fetcher(vllm.url).fetch().body == BODY
    assert "authorization" not in vllm.asked[0].headers


def test_cookies_are_not_kept(vllm, fetcher):
    vllm.answers["/metrics"] = whole(BODY, set_cookie="a=b")
    scraper = fetcher(vllm.url)
    scraper.fetch()
    scraper.fetch()
    assert "cookie" not in vllm.asked[1].headers


# --- The deadline is for the whole answer -------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        silence,
        drip(b"X-Slow: yes\r\n", after=HEAD),
        drip(b"x 1\n", after=HEAD + b"Content-Length: 1000000\r\n\r\n"),
        drip(b"x 1\n", after=HEAD + b"Connection: close\r\n\r\n"),
        drip(b"x 1\n", after=b"HTTP/1.0 200 OK\r\n\r\n"),
        drip(b"1\r\nx\r\n", after=HEAD + b"Transfer-Encoding: chunked\r\n\r\n"),
    ],
    ids=["nothing", "headers", "body", "body to the end of the stream", "HTTP/1.0", "chunks"],
)
def test_an_answer_that_drips_ends_at_the_deadline(vllm, fetcher, answer):
    vllm.answers["/metrics"] = answer
    scraper = fetcher(vllm.url, timeout=0.2)
    began = time.monotonic()
    assert failure(scraper) == (
        ScrapeFailure.TIMEOUT,
        f"{vllm.url}/metrics gave no whole answer within 0.2 s",
    )
    assert time.monotonic() - began < 2.0
    vllm.answers["/metrics"] = OK
    assert scraper.fetch().body == BODY


def test_the_deadline_holds_over_tls(fetcher):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "first.crt", TLS / "first.key")
    with http_double(context) as server:
        server.answers["/metrics"] = drip(b"X-Slow: yes\r\n", after=HEAD)
        scraper = fetcher(server.url, timeout=0.3, ca_file=TLS / "first.crt")
        assert reason(scraper) is ScrapeFailure.TIMEOUT
        server.answers["/metrics"] = OK
        assert scraper.fetch().body == BODY


def test_the_deadline_holds_over_a_reused_connection(vllm, fetcher):
    scraper = fetcher(vllm.url, timeout=0.3)
    scraper.fetch()
    vllm.answers["/metrics"] = drip(b"X-Slow: yes\r\n", after=HEAD)
    assert reason(scraper) is ScrapeFailure.TIMEOUT
    assert len(vllm.asked) == 2


def test_redirects_do_not_start_the_deadline_anew(vllm, fetcher):
    def late(path):
        def answer(handler):
            handler.server.stopping.wait(0.15)
            whole(b"", status=302, location=path)(handler)

        return answer

    vllm.answers |= {"/metrics": late("/b"), "/b": late("/c"), "/c": late("/d"), "/d": OK}
    assert reason(fetcher(vllm.url, timeout=0.2)) is ScrapeFailure.TIMEOUT


# --- Too much, or not all of it -----------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        whole(b"x" * 1001),
        raw(HEAD + b"\r\n" + b"x" * 1001),
        raw(HEAD + b"Content-Length: 99999999\r\n\r\n"),
        raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n"),
    ],
    ids=["length", "end of the stream", "announced", "chunks"],
)
def test_an_answer_over_the_cap_is_given_up(vllm, fetcher, answer):
    vllm.answers["/metrics"] = answer
    assert reason(fetcher(vllm.url, max_bytes=1000)) is ScrapeFailure.TOO_LARGE


def test_a_small_answer_that_unpacks_to_a_large_one_is_given_up(vllm, fetcher):
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 100_000
    vllm.answers["/metrics"] = whole(bomb, content_encoding="gzip")
    tracemalloc.start()
    try:
        assert reason(fetcher(vllm.url, max_bytes=100_000)) is ScrapeFailure.TOO_LARGE
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_an_answer_at_the_cap_is_taken(vllm, fetcher):
    vllm.answers["/metrics"] = whole(b"x" * 1000)
    assert len(fetcher(vllm.url, max_bytes=1000).fetch().body) == 1000
    vllm.answers["/metrics"] = whole(gzip.compress(b"x" * 1000), content_encoding="gzip")
    assert len(fetcher(vllm.url, max_bytes=1000).fetch().body) == 1000


def test_what_is_packed_twice_is_not_unpacked(vllm, fetcher):
    vllm.answers["/metrics"] = whole(gzip.compress(gzip.compress(BODY)), content_encoding="gzip, gzip")
    assert reason(fetcher(vllm.url)) is ScrapeFailure.MALFORMED


@pytest.mark.parametrize(
    "answer",
    [
        raw(HEAD + b"Content-Length: 100\r\n\r\n" + BODY),
        raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nvllm:\r\n"),
        raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\nvllm:"),
        whole(gzip.compress(BODY)[:-9], content_encoding="gzip"),
    ],
    ids=["length", "no last chunk", "half a chunk", "gzip"],
)
def test_a_body_that_ends_too_early_is_truncated(vllm, fetcher, answer):
    vllm.answers["/metrics"] = answer
    scraper = fetcher(vllm.url)
    assert reason(scraper) is ScrapeFailure.TRUNCATED
    vllm.answers["/metrics"] = OK
    assert scraper.fetch().body == BODY


def test_a_broken_gzip_is_malformed(vllm, fetcher):
    vllm.answers["/metrics"] = whole(b"not gzip", content_encoding="gzip")
    assert reason(fetcher(vllm.url)) is ScrapeFailure.MALFORMED


# --- The server refuses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "expected", "said"),
    [
        (401, ScrapeFailure.AUTH, "scrape_token_file"),
        (403, ScrapeFailure.AUTH, "scrape_token_file"),
        (404, ScrapeFailure.HTTP_CLIENT, "/metrics answers 404: check --vllm-url and --metrics-path"),
        (429, ScrapeFailure.HTTP_CLIENT, "429"),
        (500, ScrapeFailure.HTTP_SERVER, "metrics are unavailable, the engine may well be serving"),
        (503, ScrapeFailure.HTTP_SERVER, "metrics are unavailable, the engine may well be serving"),
        (799, ScrapeFailure.HTTP_SERVER, "799"),
        (304, ScrapeFailure.REDIRECT, "redirects to no address"),
    ],
)
def test_each_status_has_its_reason(vllm, fetcher, status, expected, said):
    vllm.answers["/metrics"] = whole(b"no", status=status)
    found, message = failure(fetcher(vllm.url))
    assert found is expected
    assert said in message


def test_a_401_of_the_case_is_told_without_the_token(vllm, fetcher, tmp_path):
    token = tmp_path / "token"
    token.write_text(SECRET + "\n")
    answer = (DATA / "cases/06-up-but-nothing/b_401.txt").read_bytes().strip().replace(b"\n", b"\r\n")
    vllm.answers["/metrics"] = raw(answer + b"\r\n\r\n")
    assert reason(fetcher(vllm.url, token_file=token)) is ScrapeFailure.AUTH
    assert vllm.asked[0].headers["authorization"] == f"Bearer {SECRET}"


# --- Redirects ----------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["/real", "real", "{url}/real", "//{host}/real?x=1", "{URL}/real"])
def test_a_redirect_on_the_same_server_is_followed(vllm, fetcher, location):
    host = vllm.url.removeprefix("http://")
    location = location.format(url=vllm.url, host=host, URL=vllm.url.replace("http", "HTTP"))
    vllm.answers |= {"/metrics": whole(b"", status=307, location=location), "/real": OK, "/real?x=1": OK}
    assert fetcher(vllm.url).fetch().body == BODY


def test_the_token_goes_to_no_other_server(vllm, fetcher, tmp_path):
    token = tmp_path / "token"
    token.write_text(SECRET)
    with http_double() as other:
        vllm.answers["/metrics"] = whole(
            b"", status=302, location=f"http://me:pw-0815@{other.url[7:]}/metrics"
        )
        found, message = failure(fetcher(vllm.url, token_file=token))
        assert found is ScrapeFailure.REDIRECT
        assert other.url in message
        assert "pw-0815" not in message
        assert other.asked == []


@pytest.mark.parametrize(
    "location",
    [
        "https://127.0.0.1/metrics",  # as a proxy does that wants TLS
        "//elsewhere.example/metrics",
        "ftp://127.0.0.1/metrics",
        "file:///etc/passwd",
        "http://[broken/",
        "http://127.0.0.1:99999/metrics",
        "http://127.0.0.1\\@elsewhere.example/",
        "http://\x85\xff.example/\x9b31m",
        "/metrics/",
        "/other/metrics/?x=1",
        "/metrics",
        "",
    ],
)
def test_any_other_redirect_is_refused(vllm, fetcher, location):
    vllm.answers["/metrics"] = whole(b"", status=301, location=location)
    found, message = failure(fetcher(vllm.url))
    assert found is ScrapeFailure.REDIRECT
    assert message.isascii()
    assert message.isprintable()
    assert len(vllm.asked) == 1


def test_a_long_chain_of_redirects_ends(vllm, fetcher):
    for step in range(10):
        vllm.answers[f"/{step}"] = whole(b"", status=302, location=f"/{step + 1}")
    assert reason(fetcher(vllm.url, metrics_path="/0")) is ScrapeFailure.REDIRECT
    assert len(vllm.asked) == 4


# --- Secrets ------------------------------------------------------------------------------------


def test_a_new_token_is_used_from_the_next_scrape_on(vllm, fetcher, tmp_path):
    token = tmp_path / "token"
    scraper = fetcher(vllm.url, token_file=token)
    for secret in ("first", "other"):  # alike in length, and within the clock's grain
        token.write_text(secret)
        scraper.fetch()
    assert [request.headers["authorization"] for request in vllm.asked] == ["Bearer first", "Bearer other"]


@pytest.mark.parametrize(
    "content", [None, b"", b" \n", b"two tokens", f"{SECRET}\n{SECRET}".encode(), b"\xff\xfe", b"x" * 99_999]
)
def test_a_token_file_without_a_token_is_told_by_its_setting(vllm, fetcher, tmp_path, content):
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    found, message = failure(fetcher(vllm.url, token_file=token))
    assert found is ScrapeFailure.AUTH
    assert "scrape_token_file (--scrape-token-file)" in message
    assert vllm.asked == []


def test_the_user_and_password_of_the_url_are_sent_and_never_shown(vllm, fetcher):
    vllm.answers["/metrics"] = in_turn(OK, whole(b"", status=500))
    scraper = fetcher(vllm.url.replace("://", f"://me%40home:{SECRET}@"))
    scraper.fetch()
    credentials = base64.b64encode(f"me@home:{SECRET}".encode()).decode()
    assert vllm.asked[0].headers["authorization"] == f"Basic {credentials}"
    assert failure(scraper)[1].startswith(f"{vllm.url}/metrics answers 500")


def test_a_query_is_not_shown(fetcher, vllm):
    message = failure(fetcher(vllm.url, metrics_path=f"/m?key={SECRET}"))[1]
    assert message.startswith(f"{vllm.url}/m answers 404")


# --- The connection -----------------------------------------------------------------------------


def test_a_port_where_nothing_listens_is_told_in_one_line(fetcher):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        assert failure(fetcher(url)) == (
            ScrapeFailure.CONNECTION,
            f"{url}/metrics: nothing listens there: is vLLM up, and --vllm-url right?",
        )


def test_an_unknown_host_is_told_in_one_line(fetcher):
    found, message = failure(fetcher("http://no-such-host.invalid:8000"))
    assert found is ScrapeFailure.CONNECTION
    assert (
        message
        == "http://no-such-host.invalid:8000/metrics: the host name cannot be resolved: check --vllm-url"
    )


@pytest.mark.parametrize(
    "answer", [raw(b""), raw(b"SSH-2.0-OpenSSH_9.6\r\n"), raw(HEAD + b"no header\r\n" * 200)]
)
def test_what_answers_no_http_is_a_failed_connection(vllm, fetcher, answer):
    vllm.answers["/metrics"] = answer
    assert reason(fetcher(vllm.url)) is ScrapeFailure.CONNECTION


def test_a_connection_that_was_closed_while_idle_is_not_a_failure(vllm, fetcher):
    # The server hangs up as the second request comes in, as vLLM does after five idle seconds.
    vllm.answers["/metrics"] = in_turn(OK, raw(b""), OK)
    scraper = fetcher(vllm.url)
    scraper.fetch()
    assert scraper.fetch().body == BODY
    assert len({request.connection for request in vllm.asked}) == 2


def test_a_new_connection_that_is_closed_is_a_failure_at_once(vllm, fetcher):
    vllm.answers["/metrics"] = in_turn(raw(b""), OK)
    assert reason(fetcher(vllm.url)) is ScrapeFailure.CONNECTION
    assert len(vllm.asked) == 1


def test_a_request_is_sent_again_only_once(vllm, fetcher):
    vllm.answers["/metrics"] = in_turn(OK, raw(b""))
    scraper = fetcher(vllm.url)
    scraper.fetch()
    assert reason(scraper) is ScrapeFailure.CONNECTION
    assert len(vllm.asked) == 3


def test_tls_trusts_what_the_setting_names_and_nothing_else(fetcher, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "first.crt", TLS / "first.key")
    garbage = tmp_path / "garbage.crt"
    garbage.write_text("no certificate")
    with http_double(context) as server:
        server.answers["/metrics"] = OK
        assert fetcher(server.url, ca_file=TLS / "first.crt").fetch().body == BODY
        for ca_file in (None, TLS / "second.crt", garbage, tmp_path / "missing.crt"):
            found, message = failure(fetcher(server.url, ca_file=ca_file))
            assert found is ScrapeFailure.CONNECTION
            assert "scrape_ca_file" in message
        assert len(server.asked) == 1


def test_tls_to_a_server_that_speaks_none_is_a_failed_connection(vllm, fetcher):
    found, message = failure(fetcher(vllm.url.replace("http:", "https:")))
    assert found is ScrapeFailure.CONNECTION
    assert "TLS failed" in message


def test_closing_ends_a_scrape_under_way(vllm, fetcher):
    began = threading.Event()

    def hang(handler):
        began.set()
        silence(handler)

    vllm.answers["/metrics"] = hang
    scraper = fetcher(vllm.url, timeout=60.0)
    failures = []
    thread = threading.Thread(target=lambda: failures.append(reason(scraper)))
    thread.start()
    assert began.wait(10)
    scraper.close()
    thread.join(10)
    assert failures == [ScrapeFailure.CONNECTION]
    assert reason(scraper) is ScrapeFailure.CONNECTION
    assert len(vllm.asked) == 1


# --- JSON beside the metrics --------------------------------------------------------------------


def test_json_is_read_from_paths_of_the_same_server(vllm, fetcher):
    vllm.answers["/base/version"] = whole(b'{"version":"0.32.0"}')
    assert fetcher(vllm.url + "/base").get_json("/version") == {"version": "0.32.0"}


@pytest.mark.parametrize(
    "answer",
    [
        whole(b"{}", status=404),
        whole(b"{}", status=500),
        whole(b"<html>"),
        whole(b""),
        whole(b'"\xff"'),
        whole(b"[" * 100_000),
        raw(b""),
    ],
)
def test_what_gives_no_json_is_none(vllm, fetcher, answer):
    vllm.answers["/server_info"] = answer
    assert fetcher(vllm.url).get_json("/server_info") is None


# --- The setting --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "127.0.0.1:8000",
        "/metrics",
        "ftp://localhost",
        "file:///etc/passwd",
        "http://",
        "http://:8000",
        "http://[::1",
        "http://h:70000",
        "http://h:0",
        "http://h:80a",
        "http://a b/",
        "http://h/?x=1",
        "http://h/#x",
        f"gopher://me:{SECRET}@h",
    ],
)
def test_a_url_that_cannot_be_scraped_is_refused_at_once(url):
    with pytest.raises(ConfigError, match="--vllm-url") as caught:
        Fetcher(url=url, timeout=1.0, clock=ManualClock())
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://h:8000/x", 8000), ("http://h", 80), ("https://me@h/", 443), ("http://[::1]:9000", 9000)],
)
def test_the_port_of_the_server_is_known(url, port):
    assert Address.parse(url).port == port
