from __future__ import annotations

import asyncio
import gzip
import json
import re
import threading
from pathlib import Path

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from starlette.exceptions import HTTPException
from starlette.routing import Route

from vllm_observe.model import Outcome
from vllm_observe.serve.app import admin_app, json_response, metrics_app
from vllm_observe.serve.auth import Credentials
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.render import render

ACCEPTS = (
    (Path(__file__).parents[1] / "data/cases/03-colon-rewritten/accept_headers.txt").read_text().splitlines()
)
OPEN = Credentials()
PAGE = b"# TYPE up gauge\nup 1\n"


def ask(app, path, method="GET", *headers):
    """One request to an application without a server: status, headers and body."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }
    asyncio.run(app(scope, receive, send))
    start, *bodies = sent
    return (
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(body["body"] for body in bodies),
    )


def metrics(page=lambda _: PAGE, ready=lambda: None, auth=OPEN, **more):
    return metrics_app(page=page, ready=ready, auth=auth, **more)


def admin(state=dict, auth=OPEN, **more):
    return admin_app(state=state, auth=auth, **more)


LOCAL = ("host", "127.0.0.1:9810")


# --- /metrics -------------------------------------------------------------------------------------


def test_every_accept_header_gets_the_same_names_from_a_real_listener(serve):
    instruments = Instruments()
    instruments.foresee(model_name="acme/falcon-mini", profile="")
    instruments.counter(
        "vllm_observe_requests_total", model_name="acme/falcon-mini", profile="", outcome=Outcome.OK
    ).inc()
    instruments.gauge("vllm_observe_log_lag_seconds").set(0.25)
    listener = serve(metrics(page=lambda format_: render(instruments.families(), format_)))

    names = []
    for accept in ACCEPTS:
        answer = requests.get(listener.url + "/metrics", headers={"Accept": accept}, timeout=5)
        assert answer.status_code == 200
        openmetrics = answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert answer.text.endswith("# EOF\n") == openmetrics
        families = (parse_openmetrics if openmetrics else parse_text)(answer.text)
        names.append({(s.name, tuple(s.labels.items())) for family in families for s in family.samples})
    assert len(names) == 4
    assert all(these == names[0] for these in names)
    assert not any(name.endswith("_created") for name, _ in names[0])


def test_the_accept_headers_of_case_03_get_openmetrics_and_text():
    types = [ask(metrics(), "/metrics", "GET", ("accept", accept))[1]["content-type"] for accept in ACCEPTS]
    assert [re.match(r"application/openmetrics-text|text/plain", type_)[0] for type_ in types] == [
        "application/openmetrics-text",
        "application/openmetrics-text",
        "text/plain",
        "text/plain",
    ]


def test_an_accept_header_in_two_lines_is_one():
    _, headers, _ = ask(
        metrics(),
        "/metrics",
        "GET",
        ("accept", "text/html"),
        ("accept", "application/openmetrics-text;version=1.0.0"),
    )
    assert headers["content-type"].startswith("application/openmetrics-text")


@pytest.mark.parametrize(
    ("accept_encoding", "compressed"),
    [
        ("gzip", True),
        ("deflate, GZIP ; q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("*, gzip;q=0", False),
        ("*;q=0", False),
        ("gzip;q=nonsense", False),
        ("gzip;q=nan", False),
        ("deflate", False),
        ("", False),
    ],
)
def test_a_large_page_is_compressed_for_whom_it_can_be(accept_encoding, compressed):
    page = PAGE + b"# HELP x " + b"x" * 2000 + b"\n"
    status, headers, body = ask(
        metrics(page=lambda _: page), "/metrics", "GET", ("accept-encoding", accept_encoding)
    )
    assert status == 200
    assert (headers.get("content-encoding") == "gzip") is compressed
    assert int(headers["content-length"]) == len(body)
    assert (gzip.decompress(body) if compressed else body) == page
    assert headers["vary"] == "Accept, Accept-Encoding"


def test_a_small_page_is_not_compressed():
    _, headers, body = ask(metrics(), "/metrics", "GET", ("accept-encoding", "gzip"))
    assert ("content-encoding" in headers, body) == (False, PAGE)


def test_a_page_is_made_beside_the_loop_that_answers_the_probes(serve):
    asked, go_on = threading.Event(), threading.Event()

    def page(_):
        asked.set()
        assert go_on.wait(5)
        return PAGE

    listener = serve(metrics(page=page))
    pages = []
    scrape = threading.Thread(target=lambda: pages.append(requests.get(listener.url + "/metrics", timeout=5)))
    scrape.start()
    assert asked.wait(5)
    assert requests.get(listener.url + "/healthz", timeout=5).status_code == 200
    assert pages == []
    go_on.set()
    scrape.join(5)
    assert pages[0].content == PAGE


def test_a_fault_in_a_page_is_a_500_without_a_word_of_it_and_the_next_is_served(serve, capfd):
    faults = iter([ValueError("secret")])

    def page(_):
        for fault in faults:
            raise fault
        return PAGE

    listener = serve(metrics(page=page))
    first, second = (requests.get(listener.url + "/metrics", timeout=5) for _ in range(2))
    assert (first.status_code, first.text) == (500, "a fault of the sidecar's own; its log says more\n")
    assert (second.status_code, second.content) == (200, PAGE)
    assert "Traceback" not in capfd.readouterr().err


# --- the probes and all other paths ---------------------------------------------------------------


def test_the_process_is_healthy_while_it_says_so():
    assert ask(metrics(), "/healthz")[::2] == (200, b"ok\n")
    assert ask(metrics(healthy=lambda: False), "/healthz")[::2] == (503, b"unhealthy\n")


def test_it_is_ready_or_says_in_one_line_why_not():
    assert ask(metrics(), "/readyz")[::2] == (200, b"ok\n")
    status, headers, body = ask(metrics(ready=lambda: "no good scrape yet:\n connection refused"), "/readyz")
    assert (status, body) == (503, b"no good scrape yet: connection refused\n")
    assert headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics/",
        "/healthz/",
        "//metrics",
        "/Metrics",
        "/api/v1/state",
        "/metrics/../healthz",
        "/favicon.ico",
    ],
)
def test_every_other_path_is_404_and_no_redirect(path):
    status, headers, _ = ask(metrics(), path)
    assert (status, "location" in headers) == (404, False)


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_the_three_paths_are_only_read(path):
    assert ask(metrics(), path, "POST")[0] == 405
    assert ask(metrics(), path, "HEAD")[0] == 200


def test_a_head_request_gets_the_headers_alone(serve):
    listener = serve(metrics())
    with requests.Session() as session:
        head = session.head(listener.url + "/metrics", timeout=5)
        assert (head.headers["Content-Length"], head.content) == (str(len(PAGE)), b"")
        assert session.get(listener.url + "/metrics", timeout=5).content == PAGE


# --- who may ask ----------------------------------------------------------------------------------


@pytest.fixture
def locked(tmp_path):
    (tmp_path / "token").write_text("sesame\n")
    return Credentials(token_file=tmp_path / "token")


def test_with_credentials_the_metrics_need_them_and_the_probes_do_not(locked):
    app = metrics(auth=locked)
    status, headers, body = ask(app, "/metrics")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert PAGE not in body
    assert ask(app, "/metrics", "GET", ("authorization", "Bearer wrong"))[0] == 401
    assert ask(app, "/metrics", "GET", ("authorization", "Bearer sesame"))[::2] == (200, PAGE)
    assert [ask(app, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]


def test_who_may_not_ask_does_not_learn_which_paths_there_are(locked):
    assert [ask(metrics(auth=locked), path)[0] for path in ("/metrics", "/nothing")] == [401, 401]
    assert [ask(admin(auth=locked), path)[0] for path in ("/api/v1/state", "/nothing")] == [401, 401]


def test_with_credentials_the_admin_api_answers_by_any_name(locked):
    headers = [("host", "sidecar.example:9810"), ("authorization", "Bearer sesame")]
    assert ask(admin(auth=locked), "/api/v1/state", "GET", *headers)[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1:9810", "localhost:19810", "[::1]:9810", "localhost"])
def test_without_credentials_the_admin_api_answers_by_this_machines_own_names(host):
    assert ask(admin(), "/api/v1/state", "GET", ("host", host))[0] == 200


@pytest.mark.parametrize("host", ["evil.example:9810", "127.0.0.1.evil.example", "10.0.0.1:9810", ""])
def test_without_credentials_the_admin_api_does_not_answer_a_page_that_rebinds_its_name(host):
    status, _, body = ask(admin(state=lambda: {"secret": 1}), "/api/v1/state", "GET", ("host", host))
    assert (status, json.loads(body)["error"]["code"]) == (421, "misdirected_request")
    assert b"secret" not in body
    assert ask(admin(), "/api/v1/state")[0] == 421


def test_the_metrics_answer_by_any_name():
    assert ask(metrics(), "/metrics", "GET", ("host", "sidecar.example:9809"))[0] == 200


# --- the admin API --------------------------------------------------------------------------------


def test_the_state_is_json_that_no_cache_keeps():
    state = {"running": 8, "kv_usage": 0.5, "waiting": None, "age": float("nan"), "outcome": Outcome.OK}
    status, headers, body = ask(admin(state=lambda: state), "/api/v1/state", "GET", LOCAL)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert json.loads(body) == {"running": 8, "kv_usage": 0.5, "waiting": None, "age": None, "outcome": "ok"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/api/v1/state/", 404, "not_found"),
        ("GET", "/api/v1", 404, "not_found"),
        ("GET", "/metrics", 404, "not_found"),
        ("POST", "/api/v1/state", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/state", 405, "method_not_allowed"),
    ],
)
def test_an_error_is_json_with_a_code_and_a_message(method, path, status, code):
    told, headers, body = ask(admin(), path, method, LOCAL)
    assert (told, headers["content-type"]) == (status, "application/json")
    error = json.loads(body)["error"]
    assert (error["code"], bool(error["message"])) == (code, True)
    if status == 405:
        assert "GET" in headers["allow"]


def test_a_fault_in_the_state_is_a_500_without_a_word_of_it():
    def state():
        raise KeyError("secret")

    status, _, body = ask(admin(state=state), "/api/v1/state", "GET", LOCAL)
    assert (status, json.loads(body)["error"]["code"]) == (500, "internal_server_error")
    assert b"secret" not in body


def test_a_state_that_json_cannot_hold_is_a_500():
    assert ask(admin(state=object), "/api/v1/state", "GET", LOCAL)[0] == 500


def test_other_parts_add_their_routes_behind_the_same_gate():
    def show(request):
        if request.path_params["id"] != "r-1":
            raise HTTPException(404, "no request has this id")
        return json_response({"id": "r-1"})

    app = admin(extra_routes=[Route("/api/v1/requests/{id}", show)])
    assert json.loads(ask(app, "/api/v1/requests/r-1", "GET", LOCAL)[2]) == {"id": "r-1"}
    status, _, body = ask(app, "/api/v1/requests/r-2", "GET", LOCAL)
    assert (status, json.loads(body)) == (
        404,
        {"error": {"code": "not_found", "message": "no request has this id"}},
    )
    assert ask(app, "/api/v1/requests/r-1", "GET", ("host", "evil.example"))[0] == 421
