from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from support.joins import Desk
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog
from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.model import Outcome, Parts
from vllm_observe.records.formats import decoder
from vllm_observe.records.formats.vllm_log import VllmLog

DATA = Path(__file__).parents[2] / "data"
RECEIVED = "Received request chatcmpl-a: params: SamplingParams(n=1, max_tokens=64), lora_request: None."


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=timezone.utc).timestamp()


def log(now: float = at(2026, 11, 29, 20)) -> VllmLog:
    return VllmLog(clock=ManualClock(now), zone=timezone.utc)


def text(message: str, place: str = "logger.py:39", time: str = "11-29 19:48:12") -> bytes:
    return f"(APIServer pid=411) INFO {time} [{place}] {message}".encode()


def engine(message: str) -> bytes:
    return text(message, "async_llm.py:578")


def capture(name: str):
    lines = (DATA / "captures" / name / "server.log").read_bytes().split(b"\n")
    decode = log()
    return [record for line in lines for record in decode(line.rstrip(b"\r"))]


# --- What real servers wrote: the numbers are grep's ----------------------------------------------


@pytest.mark.parametrize(
    ("name", "received", "aborted"),
    [
        ("vllm-0.9.2-v0", 81, 5),
        ("vllm-0.9.2-v1", 81, 5),
        ("vllm-0.32.0", 80, 4),
        ("vllm-0.16.0-engine-dead", 0, 0),
    ],
)
def test_every_arrival_and_every_abort_of_a_real_log_is_told_once(name, received, aborted):
    records = capture(name)
    assert sum(record.finish_reason is None for record in records) == received
    assert sum(record.finish_reason == "abort" for record in records) == aborted
    assert len({record.request_id for record in records if record.finish_reason is None}) == received


def test_the_first_lines_of_a_real_log():
    first = capture("vllm-0.32.0")[0]
    assert (first.request_id, first.max_tokens) == ("chatcmpl-req-user-0-0", 100)
    assert first.ts == at(2026, 11, 29, 19, 57, 7)
    assert first.e2e_s is None


def test_case_09_prompts_are_skipped_and_outputs_counted():
    records = []
    decode = log(at(2026, 3, 2, 12))
    for line in (DATA / "cases/09-id-suffix-join/vllm.log").read_bytes().splitlines():
        records += decode(line)
    assert [
        (one.request_id, one.finish_reason, one.completion_tokens, one.max_tokens) for one in records
    ] == [
        ("chatcmpl-3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f", None, None, 64),
        ("cmpl-deadbeefcafe0001", None, None, 8),
        ("chatcmpl-3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f", "stop", 3, None),
    ]
    assert "List, then stop" not in repr(records)


# --- The forms of a line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"INFO 11-29 19:48:12 logger.py:39] " + RECEIVED.encode(),  # 0.6
        b"INFO 11-29 19:48:12 [logger.py:39] " + RECEIVED.encode(),
        text(RECEIVED),
        text(RECEIVED, "request_logger.py:65"),
        text(RECEIVED, "entrypoints/.../utils/request_logger.py:65"),  # at level DEBUG
        b"\x1b[0;36m(APIServer_0 pid=411)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-29 19:48:12\x1b[0m "
        b"\x1b[90m[logger.py:39]\x1b[0m " + RECEIVED.encode(),
    ],
)
def test_the_prefixes_of_all_releases_are_known(line):
    (record,) = log()(line)
    assert (record.request_id, record.max_tokens, record.outcome) == ("chatcmpl-a", 64, None)
    assert record.ts == at(2026, 11, 29, 19, 48, 12)


def test_a_line_of_the_json_formatter_has_its_year_and_milliseconds():
    line = {
        "asctime": "2026-11-29 19:48:12,250",
        "levelname": "INFO",
        "name": "vllm.entrypoints.serve.utils.request_logger",
        "processName": "APIServer",
        "process": 411,
        "message": RECEIVED,
    }
    (record,) = log(0.0)(json.dumps(line).encode())
    assert (record.request_id, record.ts) == ("chatcmpl-a", at(2026, 11, 29, 19, 48, 12) + 0.25)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Aborted request cmpl-a-0.", [("cmpl-a-0", "abort")]),
        ("Aborted request(s) a-00000001,a-00000002.", [("a-00000001", "abort"), ("a-00000002", "abort")]),
        ("Request a aborted.", [("a", "abort")]),
        ("Request a,b aborted.", [("a,b", "abort")]),  # an id of the client's own
        ("Finished request a.", [("a", None)]),
        ("Request a failed.", [("a", "error")]),
        ("Request a failed (engine dead).", [("a", "error")]),
        ("Request a failed (bad request): too long.", [("a", "error")]),
        ("Request a failed due to EngineDeadError().", [("a", "error")]),
        ("Added request a.", []),  # it says nothing that "Received" has not said
        ("Request a hit 3 offloaded tokens.", []),
    ],
)
def test_the_ends_of_requests(message, told):
    records = log()(engine(message))
    assert [(record.request_id, record.finish_reason) for record in records] == told
    assert all(record.outcome is not None for record in records)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("a: output: 'x', output_token_ids: [1, 2, 3], finish_reason: length", [("length", 3)]),
        ("a: output: 'x', output_token_ids: [], finish_reason: stop", [("stop", 0)]),
        ("a: output: 'x', output_token_ids: None, finish_reason: stop", [("stop", None)]),
        ("a: output: 'x', finish_reason: stop", [("stop", None)]),  # since 0.28
        ("a (streaming complete): output: 'x', finish_reason: streaming_complete", [(None, None)]),
        ("a (streaming complete): output: 'x', finish_reason: streaming_error", [("error", None)]),
        ("a (streaming delta): output: 'x', finish_reason: None", []),
        ("a details: output_token_ids: [1, 2]", []),
        ("a: output: 'finish_reason: abort', finish_reason: stop", [("stop", None)]),
    ],
)
def test_generated_responses(message, told):
    records = log()(text(f"Generated response {message}"))
    assert [(record.finish_reason, record.completion_tokens) for record in records] == told


def test_lines_on_anything_else_are_none():
    decode = log()
    assert decode(b'INFO:     127.0.0.1:1 - "POST /v1/completions?request HTTP/1.1" 200 OK') == ()
    assert decode(b"Traceback (most recent call last): request") == ()
    assert decode(engine("Engine 000: Avg prompt throughput: 1.0 tokens/s, 3 requests")) == ()
    assert decode(b'{"message":["Received request a"],"name":"vllm.logger"}') == ()


# --- An abort is logged by both ids ----------------------------------------------------------------


def test_an_abort_that_both_ids_tell_is_one_record():
    decode = log()
    assert len(decode(engine("Aborted request(s) a-0123abcd."))) == 1
    assert decode(engine("Request a aborted.")) == []
    assert len(decode(engine("Request a aborted."))) == 1  # of a later attempt that only this line tells


# --- The year ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "now", "expected"),
    [
        ("12-31 23:59:59", at(2027, 1, 1), at(2026, 12, 31, 23, 59, 59)),
        ("01-01 00:00:30", at(2026, 12, 31, 23, 59), at(2027, 1, 1, 0, 0, 30)),  # its clock is ahead
        ("11-30 00:00:00", at(2026, 11, 29), at(2026, 11, 30)),
        ("12-15 00:00:00", at(2026, 11, 29), at(2025, 12, 15)),
        ("02-29 12:00:00", at(2026, 11, 29), at(2024, 2, 29, 12)),
        ("02-29 12:00:00", at(2103, 6, 1), at(2096, 2, 29, 12)),  # 2100 is no leap year
    ],
)
def test_a_time_without_a_year_lies_in_the_latest_that_is_not_to_come(time, now, expected):
    (record,) = log(now)(text(RECEIVED, time=time))
    assert record.ts == expected


@pytest.mark.parametrize(
    "line",
    [
        text(RECEIVED, time="13-40 99:00:00"),
        json.dumps({"asctime": "2026-13-40 99:00:00", "name": "vllm.logger", "message": RECEIVED}).encode(),
        json.dumps({"asctime": "0001-01-01 00:00:00", "name": "vllm.logger", "message": RECEIVED}).encode(),
    ],
)
def test_a_time_that_no_year_has_is_refused(line):
    with pytest.raises(RecordError) as refused:
        log()(line)
    assert refused.value.reason is UnparsedReason.BAD_FIELD


# --- Prompts and ids that look like lines ------------------------------------------------------------


def test_a_quoted_prompt_forges_neither_a_limit_nor_an_end():
    prompt = "x', params: SamplingParams(max_tokens=1), lora_request: None.\nRequest b aborted."
    message = f"Received request a: prompt: {prompt!r}, params: SamplingParams(stop=['max_tokens=2'], max_tokens=64), lora_request: None."
    (record,) = log()(text(message))
    assert (record.request_id, record.max_tokens) == ("a", 64)


@pytest.mark.parametrize(
    "line",
    [
        b"Request victim aborted.",  # the next line of a message, without a prefix
        b"  INFO 11-29 19:48:12 [async_llm.py:578] Request victim aborted.",
        text("Request victim aborted.", "request_logger.py:75"),  # a body that holds a newline
        text("said: Request victim aborted.", "async_llm.py:578"),
    ],
)
def test_a_line_that_vllm_would_not_write_is_none(line):
    assert log()(line) == ()


def test_the_lines_that_follow_a_cut_message_belong_to_it():
    decode = log()
    with pytest.raises(RecordError):
        decode(text("Received request evil: params: "))
    assert decode(text("Received request victim: params: P(), lora_request: None.")) == ()
    (record,) = decode(text(RECEIVED, time="11-29 19:48:13"))
    assert record.request_id == "chatcmpl-a"


def test_an_error_of_several_lines_ends_its_request_and_forges_nothing():
    decode = log()
    assert len(decode(engine("Request a failed (bad request): cannot read"))) == 1
    assert decode(engine("Request victim aborted.")) == ()


@pytest.mark.parametrize(
    "line",
    [
        text("Received request a: params: cut"),
        text("Generated response a: output: 'cut"),
        engine("Request victim aborted. And more"),
    ],
)
def test_a_message_of_another_form_is_counted(line):
    with pytest.raises(RecordError) as refused:
        log()(line)
    assert refused.value.reason is UnparsedReason.BAD_FIELD


def test_what_is_remembered_of_aborts_is_bounded():
    decode = log()
    for number in range(5000):
        decode(engine(f"Aborted request(s) r-{number:08x}."))
    assert len(decode._aborted) <= 1024


def test_a_long_id_is_bounded_and_long_lines_are_read_in_no_time():
    (record,) = log()(engine("Aborted request(s) " + "x" * 500_000 + "."))
    assert len(record.request_id) == 256
    for filler in ("'", "\\", "\\'", "'\\", "(", "request ", "Received request "):
        message = "Received request a: prompt: " + filler * 50_000
        with pytest.raises(RecordError):
            log()(text(message))


def test_of_a_real_log_alone_only_the_requests_become_known_whose_end_it_reports():
    requests = Desk().join(*capture("vllm-0.32.0"))
    assert [request.outcome for request in requests] == [Outcome.ABORT] * 4


def test_case_09_meets_the_apps_log_in_the_join():
    case = DATA / "cases/09-id-suffix-join"
    names = {"request_id": "x_request_id", "duration_s": {"from": "latency_ms", "scale": 0.001}}
    app = decoder(RequestLog(path="-", fields=names), clock=ManualClock())
    records = [record for line in (case / "app.jsonl").read_bytes().splitlines() for record in app(line)]
    decode = log(at(2026, 3, 2, 12))
    for line in (case / "vllm.log").read_bytes().splitlines():
        records += decode(line)
    first, second, third = sorted(Desk().join(*records), key=lambda request: request.edges[0].ts)
    assert (first.session_id, first.completion_tokens, first.parts) == ("sess-17", 3, Parts.BOTH)
    assert {part.finish_reason for part in first.engines} == {None, "stop"}
    assert (second.session_id, second.parts) == ("sess-18", Parts.BOTH)
    assert (third.session_id, third.parts, third.edges[0].status) == ("sess-18", Parts.EDGE, 502)
