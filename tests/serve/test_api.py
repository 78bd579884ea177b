"""The admin API over HTTP, on a real store; and against its own OpenAPI document."""

from __future__ import annotations

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_schema_conformance,
    status_code_conformance,
)

from support.joins import T, edge, engine
from support.looks import page, seen
from support.stores import NOW, engine_only, open_store, put, request
from vllm_observe.clock import ManualClock
from vllm_observe.model import Cause, Outcome
from vllm_observe.serve.api.routes import api_routes
from vllm_observe.serve.app import admin_app
from vllm_observe.serve.auth import Credentials

DESIGNED = {
    *(
        "request_id",
        "session_id",
        "profile",
        "client",
        "model",
        "engine",
        "attempt",
        "started_at",
        "ended_at",
    ),
    *("duration_s", "ttft_s", "phases", "tokens", "status", "outcome", "finish_reason", "cause", "evidence"),
    "parts",
}


@pytest.fixture
def store(tmp_path):
    opened = open_store(tmp_path / "requests.db")
    yield opened
    opened.close()


@pytest.fixture
def api(store, serve):
    """Ask the admin API of a sidecar with this store."""
    app = admin_app(
        state=lambda: seen(page("vllm-0.32.0/saturated.prom")),
        auth=Credentials(),
        extra_routes=api_routes(lambda: store, ManualClock(wall=NOW)),
    )
    base = serve(app).url

    def ask(path, **parameters):
        return requests.get(f"{base}{path}", params=parameters, timeout=5)

    ask.base = base
    return ask


def test_requests_are_listed_newest_first_with_every_designed_field(store, api):
    put(
        store,
        request("old", start=0.0),
        request("new", start=10.0, cause=Cause.QUEUE_SLOTS, session_id="s", profile="coder", client="web"),
    )
    found = api("/api/v1/requests").json()
    newest, oldest = found["requests"]
    assert (newest["request_id"], oldest["request_id"]) == ("new", "old")
    assert found["next_cursor"] is None
    assert set(newest) == DESIGNED
    assert newest["started_at"] == T + 10.0
    assert newest["ended_at"] == T + 14.0
    assert newest["duration_s"] == 4.0
    assert newest["phases"] == {"outside": 3.0, "queue": 0.25, "prefill": 0.25, "decode": 0.5}
    assert (newest["cause"], newest["evidence"]) == ("queue_slots", "8 of 8 slots were taken")
    assert (newest["session_id"], newest["profile"], newest["client"]) == ("s", "coder", "web")
    assert newest["finish_reason"] == "stop"
    assert oldest["cause"] is None
    assert oldest["session_id"] is None


@pytest.mark.parametrize(
    ("outcome", "statuses", "shown"),
    [
        (Outcome.ERROR, (502, 200), 502),
        (Outcome.ERROR, (200, 502), 502),  # which of two that took alike is the outer one cannot be known
        (Outcome.OK, (200, 503), 200),  # tried again within: the user saw none of it
        (Outcome.ABORT, (None, 499), 499),
        (Outcome.ERROR, (None, 200), 200),
    ],
)
def test_the_status_is_the_one_that_tells_of_the_failure(store, api, outcome, statuses, shown):
    edges = tuple(edge("a", status=status) for status in statuses)
    put(store, msgspec.structs.replace(request("a", outcome=outcome), edges=edges))
    (only,) = api("/api/v1/requests").json()["requests"]
    assert only["status"] == shown


def test_a_request_of_two_legs_ends_as_the_decoding_one(store, api):
    prefill = engine("chatcmpl-a", took=0.5, finish_reason="length")
    decode = engine("chatcmpl-a", start=0.5, took=2.0, finish_reason="stop")
    put(store, msgspec.structs.replace(request("a"), engines=(prefill, decode)))
    (only,) = api("/api/v1/requests").json()["requests"]
    assert only["finish_reason"] == "stop"


def test_what_is_not_known_is_null(store, api):
    put(store, engine_only("chatcmpl-lonely"))
    (only,) = api("/api/v1/requests").json()["requests"]
    assert set(only) == DESIGNED
    assert [only[name] for name in ("session_id", "status", "cause", "evidence")] == [None] * 4
    assert only["tokens"] == {"prompt": None, "cached": None, "completion": None}


def test_pages_hold_each_request_once(store, api):
    put(store, *(request(f"r{number}", start=float(number)) for number in range(7)))
    listed, cursor = [], {}
    while cursor is not None:
        found = api("/api/v1/requests", limit=3, **cursor).json()
        listed += [one["request_id"] for one in found["requests"]]
        cursor = {"cursor": found["next_cursor"]} if found["next_cursor"] else None
    assert listed == [f"r{number}" for number in range(6, -1, -1)]


def test_filters_reach_the_store(store, api):
    put(store, request("good"), request("bad", outcome=Outcome.ERROR, cause=Cause.SERVER_ERROR, status=500))
    (found,) = api("/api/v1/requests", outcome="error", cause="server_error", slower_than=1).json()[
        "requests"
    ]
    assert (found["request_id"], found["status"]) == ("bad", 500)
    assert api("/api/v1/requests", since="1s").json()["requests"] == []


@pytest.mark.parametrize("asked", ["abc", "chatcmpl-abc"])
def test_one_request_is_found_by_its_own_id_and_by_vllms(store, api, asked):
    put(store, request("abc"))
    found = api(f"/api/v1/requests/{asked}").json()
    assert found["request_id"] == "abc"
    (attempt,) = found["attempts"]
    assert set(attempt) > DESIGNED
    assert [edge["request_id"] for edge in attempt["edges"]] == ["abc"]
    assert [part["request_id"] for part in attempt["engines"]] == ["chatcmpl-abc"]
    assert attempt["at_end"] == {"at": T, "running": 8.0, "waiting": 3.0, "kv_usage": None}
    assert attempt["at_arrival"] is None


@pytest.mark.parametrize("name", ["a/b", "a?b#c", "ä %2F", "..", "a b", "a\nb", "a\n", "a\0\x1b[31mb"])
def test_an_id_may_hold_any_character(store, api, name):
    put(store, request(name))
    quoted = requests.utils.quote(name, safe="")
    assert requests.get(api.base + "/api/v1/requests/" + quoted.replace(".", "%2E"), timeout=5).json()[
        "request_id"
    ] == name  # fmt: skip


def test_sessions_add_up(store, api):
    put(
        store,
        request("one", session_id="s", took=1.0, prompt_tokens=10, completion_tokens=5),
        request("two", session_id="s", took=9.0, start=20.0, prompt_tokens=30, outcome=Outcome.ABORT,
                cause=Cause.CLIENT_DISCONNECTED),
        request("other", session_id="t"),
    )  # fmt: skip
    (found,) = api("/api/v1/sessions", session_id="s").json()["sessions"]
    assert found["requests"] == 2
    assert {name: count for name, count in found["outcomes"].items() if count} == {"ok": 1, "abort": 1}
    assert {name: count for name, count in found["causes"].items() if count} == {"client_disconnected": 1}
    assert (found["tokens"]["prompt"], found["tokens"]["completion"]) == (40, 5)
    assert found["slowest"] == {"request_id": "two", "duration_s": 9.0}


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/api/v1/requests?limit=none", 400, "limit must be"),
        ("/api/v1/requests?cursor=none", 400, "cursor"),
        ("/api/v1/sessions?outome=ok", 400, "did you mean outcome"),
        ("/api/v1/requests/unheard-of", 404, "no such request"),
        ("/api/v1/nothing", 404, ""),
    ],
)
def test_errors_say_what_is_wrong_in_one_form(api, path, status, word):
    answer = requests.get(api.base + path, timeout=5)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    assert word in error["message"]


def test_without_a_store_it_says_how_to_have_one(serve):
    app = admin_app(state=dict, auth=Credentials(), extra_routes=api_routes(lambda: None, ManualClock()))
    answer = requests.get(serve(app).url + "/api/v1/requests", timeout=5)
    assert answer.status_code == 503
    assert "--store" in answer.json()["error"]["message"]


def test_a_store_that_cannot_be_read_is_503(store, api, tmp_path):
    store.close()
    for file in tmp_path.iterdir():
        file.unlink()
    assert api("/api/v1/requests").status_code == 503


@pytest.mark.slow
def test_every_answer_is_as_the_openapi_document_says(store, api):
    put(
        store,
        request("a", cause=Cause.QUEUE_SLOTS, session_id="s", status=200),
        request("b", outcome=Outcome.ERROR, cause=Cause.SERVER_ERROR, session_id="s", start=3.0),
        engine_only("chatcmpl-c"),
    )
    schema = schemathesis.openapi.from_dict(api("/api/v1/openapi.json").json())
    schema.config.base_url = api.base
    operations = [result.ok() for result in schema.get_all_operations()]
    assert [operation.path for operation in operations] == [
        "/api/v1/state",
        "/api/v1/requests",
        "/api/v1/requests/{request_id}",
        "/api/v1/sessions",
    ]
    for operation in operations:
        for mode in modes(operation):
            conforms(operation.as_strategy(generation_mode=mode))


def modes(operation):
    """What can be asked of an operation: rightly, and, where it can be wrong, wrongly."""
    return list(GenerationMode) if operation.query else [GenerationMode.POSITIVE]


def conforms(cases):
    @given(case=cases)
    @settings(max_examples=30, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    def conform(case):
        case.call_and_validate(
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
                negative_data_rejection,
                positive_data_acceptance,
            ]
        )

    conform()
