"""nginx, Envoy and LiteLLM: real and realistic lines become the records that their programs mean."""

from __future__ import annotations

import contextlib
import json
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog
from vllm_observe.errors import ConfigError, RecordError
from vllm_observe.model import EdgeRecord, Outcome
from vllm_observe.records.formats import READY, decoder

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests/data/formats"
#: Where we say how to have each program write its log.
CONFIGURATIONS = {
    "nginx": ROOT / "exporters/nginx.conf",
    "envoy": ROOT / "docs/formats.md",
    "litellm": ROOT / "docs/formats.md",
}


def decoding(form: str, **fields: object):
    return decoder(RequestLog(path="-", format=form, fields=fields), clock=ManualClock())


def records(form: str, file: str, **fields: object) -> dict[str, EdgeRecord]:
    decode = decoding(form, **fields)
    found = [record for line in (DATA / file).read_bytes().splitlines() for record in decode(line)]
    return {record.request_id: record for record in found}


def one(form: str, line: dict, **fields: object) -> EdgeRecord:
    (record,) = decoding(form, **fields)(json.dumps(line).encode())
    return record


# --- nginx: what Debian's 1.22 wrote with exporters/nginx.conf -------------------------------------


def test_every_end_that_nginx_knows_has_its_outcome():
    outcomes = {name: record.outcome for name, record in records("nginx", "nginx.jsonl").items()}
    refused = outcomes.pop("5ae795426237d053e170fe97ed0ffb66")  # nginx's own id, since none was sent
    assert refused is Outcome.REJECTED
    assert outcomes == {
        "ok": Outcome.OK,
        "stream": Outcome.OK,
        "midstream-disc": Outcome.ABORT,  # the status is 200
        "early-disc": Outcome.ABORT,
        "timeout": Outcome.TIMEOUT,
        "break": Outcome.OK,  # nginx cannot tell that vLLM broke off; the engine's side can
        "down": Outcome.ERROR,
        "retry1": Outcome.OK,  # served by the second upstream
        "retry2": Outcome.OK,
    }


def test_nginx_gives_times_as_text_and_clients_send_any_bytes():
    record = records("nginx", "nginx.jsonl")["ok"]
    assert (record.ts, record.duration_s, record.status) == (1796019697.135, 0.002, 200)
    assert (record.session_id, record.profile, record.client) == ('s"1', "caf\xe9\x01", None)
    assert (record.path, record.stream) == ("/v1/ok", False)


def test_the_time_of_the_headers_is_no_time_to_the_first_token():
    record = records("nginx", "nginx.jsonl")["stream"]
    assert (record.stream, record.ttft_s) == (True, None)


def test_what_a_client_sent_is_read_as_utf_8():
    line = (
        b'{"msec":"1796019697.135","status":"200","request_id":"caf\xc3\xa9","http_x_profile":"caf\xc3\xa9"}'
    )
    (record,) = decoding("nginx")(line)
    assert (record.request_id, record.profile) == ("caf\xe9", "caf\xe9")


def test_an_older_json_log_with_nginxs_own_names_is_read():
    line = {"msec": "1796019697.135", "status": "200", "http_x_request_id": "sent", "request_id": "made"}
    assert one("nginx", line).request_id == "sent"
    assert one("nginx", {**line, "http_x_request_id": ""}).request_id == "made"


@pytest.mark.parametrize(
    ("status", "completion", "outcome"),
    [("000", "", "abort"), ("408", "OK", "timeout"), ("400", "", "error"), ("502", "", "error")],
)
def test_a_failure_keeps_its_own_outcome(status, completion, outcome):
    line = {"msec": "1.5", "request_id": "a", "status": status, "request_completion": completion}
    assert one("nginx", line).outcome.value == outcome


def test_health_checks_and_scrapes_are_no_requests():
    assert decoding("nginx")(b'{"request_method":"GET","status":"200"}') == ()
    assert decoding("envoy")(b'{"method":"GET","response_code":200}') == ()


# --- Envoy ---------------------------------------------------------------------------------------


def test_envoys_flags_tell_what_its_status_does_not():
    found = records("envoy", "envoy.jsonl")
    assert {name: (record.outcome.value, record.error) for name, record in found.items()} == {
        "7d1e4b8a-0001-4c55-9a1b-2c3d4e5f0001": ("ok", None),
        "envoy-left-midstream": ("abort", "DC"),
        "envoy-left-early": ("abort", "DC"),
        "envoy-timeout": ("timeout", "UT"),
        "envoy-overflow": ("rejected", "UO"),
        "envoy-down": ("error", "UF"),
        "envoy-limited": ("rejected", "RL"),
        "envoy-broke-off": ("error", "UC"),
    }


def test_envoy_tells_the_start_and_the_length():
    record = records("envoy", "envoy.jsonl")["7d1e4b8a-0001-4c55-9a1b-2c3d4e5f0001"]
    assert record.ts == datetime(2026, 3, 2, 10, 15, 2, tzinfo=timezone.utc).timestamp()
    assert record.duration_s == pytest.approx(1.75)
    assert (record.path, record.session_id, record.profile) == ("/v1/chat/completions", "sess-1", "coder")
    assert record.trace_id == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize("flag", ["RFCF", "DI", "RLSE", "-", "", None, 5])
def test_what_is_no_failure_of_envoys_leaves_the_status_to_tell(flag):
    line = {"start_time": "2026-03-02T10:15:00Z", "request_id": "a", "response_flags": flag}
    assert one("envoy", {**line, "response_code": 200}).outcome is Outcome.OK
    assert one("envoy", {**line, "response_code": 429}).outcome is Outcome.REJECTED


# --- LiteLLM -------------------------------------------------------------------------------------


def test_litellm_fails_by_the_status_of_its_error():
    found = records("litellm", "litellm.jsonl")
    assert {name: (record.outcome.value, record.error, record.status) for name, record in found.items()} == {
        "chatcmpl-7f3a": ("ok", None, None),
        "chatcmpl-whole": ("ok", None, None),
        "5d0c-limited": ("rejected", "RateLimitError", 429),
        "5d0c-timeout": ("timeout", "Timeout", 408),
        "5d0c-down": ("error", "InternalServerError", 500),
        "5d0c-unknown": ("error", "APIConnectionError", None),
        "5d0c-silent": ("error", "error", None),
    }


def test_litellm_tells_times_tokens_and_who_but_no_words():
    found = records("litellm", "litellm.jsonl")
    assert found["chatcmpl-7f3a"] == EdgeRecord(
        ts=1772446502.0,
        request_id="chatcmpl-7f3a",
        outcome=Outcome.OK,
        session_id="sess-9",
        profile="assistant",
        client="team-search",
        model="tiny",
        path="/v1/chat/completions",
        stream=True,
        duration_s=1.75,
        ttft_s=0.5,
        prompt_tokens=120,
        completion_tokens=60,
        cached_tokens=96,
    )
    assert found["chatcmpl-whole"].ttft_s is None
    assert "SYNTHETIC" not in repr(found)
    assert "example.org" not in repr(found)


# --- All of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", "-"])
@pytest.mark.parametrize(
    ("form", "status"), [("nginx", "status"), ("envoy", "response_code"), ("litellm", "status")]
)
def test_a_good_line_is_no_record_without_its_status(form, status, value):
    decode = decoding(form)
    lines = [
        json.loads(line.decode("latin-1")) for line in (DATA / f"{form}.jsonl").read_bytes().splitlines()
    ]
    told = [(line, record) for line in lines for record in decode(json.dumps(line).encode())]
    good = [line for line, record in told if record.outcome is Outcome.OK]
    assert good
    for line in good:
        with pytest.raises(RecordError):
            decode(json.dumps({**line, status: value}).encode())


@pytest.mark.parametrize("form", sorted(READY))
def test_an_operators_own_rule_goes_before_the_maps(form):
    line = {
        "my_id": "mine", "mine_ms": 250, "msec": "5", "endTime": 5, "start_time": "1970-01-01T00:00:05Z",
        "duration": 0, "status": "200" if form == "nginx" else "success", "response_code": 200,
        "request_id": "theirs", "id": "theirs",
    }  # fmt: skip
    own = {"request_id": "my_id", "duration_s": {"from": "mine_ms", "scale": 0.001}}
    record = one(form, line, **own)
    assert (record.request_id, record.duration_s) == ("mine", 0.25)


@pytest.mark.parametrize("form", sorted(READY))
@pytest.mark.parametrize("value", [None, True, [], {}, -1, 1e300, "\ud800", "x" * 5000])
def test_a_hostile_value_is_a_record_or_a_counted_reason(form, value):
    decode = decoding(form)
    for line in (DATA / f"{form}.jsonl").read_bytes().splitlines():
        fields = json.loads(line.decode("latin-1"))
        for name in fields:
            with contextlib.suppress(RecordError):
                decode(json.dumps({**fields, name: value}).encode())


@pytest.mark.parametrize(("form", "file"), CONFIGURATIONS.items())
def test_the_configuration_that_we_hand_out_writes_what_the_map_reads(form, file):
    written = set(
        re.findall(r'"(\w+)"', file.read_text()) + re.findall(r"^  (\w+): ", file.read_text(), re.MULTILINE)
    )
    read = {rule.source.partition(".")[0] for rule in READY[form].rules.values() if rule}
    assert read <= written


def test_a_wrong_field_is_named_with_its_near_one():
    with pytest.raises(ConfigError, match=r"fields\.sesion_id .*did you mean session_id\?"):
        decoding("nginx", sesion_id="a")
    with pytest.raises(ConfigError, match="field map is for JSON"):
        decoding("vllm", session_id="a")
