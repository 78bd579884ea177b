from __future__ import annotations

import json

import pytest

from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.model import (
    EdgeRecord,
    EngineKey,
    EngineRecord,
    EngineSample,
    EngineState,
    Limits,
    LimitsSource,
    Outcome,
)
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.format1 import decode


def line(**fields: object) -> bytes:
    """A line with what every edge record needs, changed or added to; ``...`` leaves a field out."""
    least = {"ts": 1772446500.01, "request_id": "abc", "status": 200}
    return json.dumps({k: v for k, v in {**least, **fields}.items() if v is not ...}).encode()


def reason(raw: bytes) -> UnparsedReason:
    with pytest.raises(RecordError) as caught:
        decode(raw)
    return caught.value.reason


def test_an_edge_record_takes_every_field_of_the_format():
    record = decode(
        b'{"ts":"2026-03-02T10:15:00.010Z","request_id":"3f0c","session_id":"sess-17","profile":"coder",'
        b'"client":"web","model":"Qwen/Qwen2.5-0.5B-Instruct","path":"/v1/chat/completions","stream":true,'
        b'"status":200,"outcome":"ok","duration_s":1.9,"ttft_s":0.21,"prompt_tokens":418,'
        b'"completion_tokens":64,"cached_tokens":384,"max_tokens":128,"queue_depth":3,'
        b'"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"}'
    )
    assert record == EdgeRecord(
        ts=1772446500.01,
        request_id="3f0c",
        outcome=Outcome.OK,
        session_id="sess-17",
        profile="coder",
        client="web",
        model="Qwen/Qwen2.5-0.5B-Instruct",
        path="/v1/chat/completions",
        stream=True,
        status=200,
        duration_s=1.9,
        ttft_s=0.21,
        prompt_tokens=418,
        completion_tokens=64,
        cached_tokens=384,
        max_tokens=128,
        queue_depth=3,
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    )


def test_an_engine_record_takes_every_field_of_the_format():
    record = decode(
        b'{"kind":"engine","ts":1772446500,"request_id":"chatcmpl-3f0c-9be01f77","model":"Qwen","engine":1,'
        b'"finish_reason":"length","e2e_s":0.249,"queue_s":0.001,"prefill_s":0.026,"decode_s":0.163,'
        b'"tpot_s":0.018,"prompt_tokens":418,"completion_tokens":10,"cached_tokens":384,"preemptions":0,'
        b'"max_tokens":10,"state":{"running":7,"waiting":8,"kv_usage":0.526}}'
    )
    assert record == EngineRecord(
        ts=1772446500.0,
        request_id="chatcmpl-3f0c-9be01f77",
        model="Qwen",
        engine="1",
        finish_reason="length",
        e2e_s=0.249,
        queue_s=0.001,
        prefill_s=0.026,
        decode_s=0.163,
        tpot_s=0.018,
        prompt_tokens=418,
        completion_tokens=10,
        cached_tokens=384,
        preemptions=0,
        max_tokens=10,
        state=EngineState(running=7.0, waiting=8.0, kv_usage=0.526),
    )


def test_a_sample_line_is_an_engines_state():
    record = decode(
        b'{"kind":"sample","ts":1772446500,"model":"Qwen","engine":0,"running":7,"waiting":8,'
        b'"kv_usage":0.5,"awake":true,"generation_tokens":1000000,"preemptions":2}'
    )
    assert record == EngineSample(
        at=1772446500.0,
        key=EngineKey("Qwen", "0"),
        running=7.0,
        waiting=8.0,
        kv_usage=0.5,
        awake=True,
        generation_tokens=1e6,
        preemptions=2.0,
    )


def test_a_limits_line_is_what_an_engine_may_do():
    record = decode(
        b'{"kind":"limits","ts":1772446500,"max_num_seqs":8,"max_num_batched_tokens":2048,'
        b'"max_model_len":2048,"num_gpu_blocks":"None","block_size":16,"vllm_version":"0.32.0"}'
    )
    assert record == Limits(
        source=LimitsSource.PLUGIN,
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        max_model_len=2048,
        block_size=16,
        vllm_version="0.32.0",
    )


def test_fields_that_the_format_does_not_have_are_passed_over():
    record = decode(line(prompt="do not read me", messages=[{"content": "nor me"}], trace={"a": [1, 2]}))
    assert record == EdgeRecord(ts=1772446500.01, request_id="abc", outcome=Outcome.OK, status=200)


def test_null_an_empty_text_and_a_dash_all_mean_not_known():
    record = decode(line(session_id=None, profile="", client="-", duration_s="-", prompt_tokens="None"))
    assert record == decode(line())


def test_numbers_and_booleans_become_names_where_names_are_asked_for():
    record = decode(line(request_id=17, session_id=42, profile=True, client=1.5))
    assert (record.request_id, record.session_id, record.profile, record.client) == (
        "17",
        "42",
        "true",
        "1.5",
    )


def test_numbers_may_come_as_texts():
    record = decode(
        line(ts="1772446500.01", status="200", duration_s="1.9", ttft_s="2e-1", prompt_tokens="64")
    )
    assert record == decode(line(duration_s=1.9, ttft_s=0.2, prompt_tokens=64))


def test_a_whole_float_is_an_amount_of_tokens():
    assert decode(line(completion_tokens=64.0)).completion_tokens == 64


@pytest.mark.parametrize(
    ("written", "flag"),
    [
        (True, True),
        ("true", True),
        ("True", True),
        (1, True),
        ("1", True),
        ("false", False),
        (0, False),
        ("-", None),
    ],
)
def test_a_flag_may_come_as_text_or_number(written, flag):
    assert decode(line(stream=written)).stream is flag


def test_an_engines_state_may_come_as_texts():
    state = decode(line(kind="engine", state={"running": "7", "waiting": "-", "kv_usage": "0.5"})).state
    assert state == EngineState(running=7.0, kv_usage=0.5)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": 200}, Outcome.OK),
        ({"status": 302}, Outcome.OK),
        ({"status": 400}, Outcome.ERROR),
        ({"status": 404}, Outcome.ERROR),
        ({"status": 500}, Outcome.ERROR),
        ({"status": 502}, Outcome.ERROR),
        ({"status": 408}, Outcome.TIMEOUT),
        ({"status": 504}, Outcome.TIMEOUT),
        ({"status": 429}, Outcome.REJECTED),
        ({"status": 503}, Outcome.REJECTED),
        ({"status": 499}, Outcome.ABORT),
        ({"status": 0}, Outcome.ABORT),
        ({"status": "000"}, Outcome.ABORT),
        ({"status": 200, "error": "InternalServerError"}, Outcome.ERROR),
        ({"status": 429, "error": "rate_limit"}, Outcome.REJECTED),
        ({"status": ..., "error": "ConnectError"}, Outcome.ERROR),
        ({"status": 200, "finish_reason": "abort"}, Outcome.ABORT),
        ({"status": 200, "finish_reason": "error"}, Outcome.ERROR),
        ({"status": 200, "finish_reason": "stop"}, Outcome.OK),
        ({"status": 200, "outcome": "abort"}, Outcome.ABORT),
        ({"status": 200, "outcome": "Timeout"}, Outcome.TIMEOUT),
        ({"status": 500, "outcome": "ok"}, Outcome.ERROR),
        ({"status": 200, "outcome": "ok", "finish_reason": "abort"}, Outcome.ABORT),
        ({"status": 499, "outcome": "error"}, Outcome.ERROR),
        ({"status": ..., "outcome": "ok"}, Outcome.OK),
        ({"status": ..., "finish_reason": "length"}, Outcome.OK),
        ({"status": ..., "finish_reason": "Tool_Calls"}, Outcome.OK),
        ({"status": 200, "finish_reason": "a new one"}, Outcome.OK),
        ({"status": 500, "finish_reason": "stop"}, Outcome.ERROR),
    ],
)
def test_the_outcome_is_the_worst_that_the_line_tells(fields, expected):
    assert decode(line(**fields)).outcome is expected


@pytest.mark.parametrize("empty", [{}, [], "", None, {"message": None}])
def test_an_empty_error_does_not_fail_a_request(empty):
    assert decode(line(outcome="ok", error=empty)).outcome is Outcome.OK


def test_status_0_is_no_status():
    assert decode(line(status=0)).status is None


@pytest.mark.parametrize("status", [..., None, "-", 101])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"duration_s": 1.5, "ttft_s": 0.2, "prompt_tokens": 8, "completion_tokens": 3},
        {"finish_reason": "a new one"},
        {"outcome": "-", "error": None},
    ],
)
def test_what_does_not_tell_how_it_ended_is_no_record_and_never_ok(status, fields):
    assert reason(line(status=status, **fields)) is UnparsedReason.MISSING_FIELD


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"finish_reason": "stop"}, Outcome.OK),
        ({"finish_reason": "repetition"}, Outcome.OK),
        ({"finish_reason": "abort"}, Outcome.ABORT),
        ({"finish_reason": "error"}, Outcome.ERROR),
        ({"finish_reason": "a new one"}, None),
        ({"e2e_s": 1.5, "completion_tokens": 3}, None),
        ({"completed": True, "ended": True}, None),  # names of ours, not of the format's
        ({}, None),
    ],
)
def test_an_engines_line_tells_by_its_finish_reason_alone_how_the_request_ended(fields, expected):
    assert decode(line(kind="engine", **fields)).outcome is expected


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("InternalServerError", "InternalServerError"),
        ("openai.APITimeoutError", "openai.APITimeoutError"),
        ({"message": "the prompt was: my password is hunter2", "type": "BadRequestError"}, "BadRequestError"),
        ({"message": "quoted prompt", "code": 500}, "500"),
        ({"message": "quoted prompt"}, "error"),
        ({"type": {"message": "quoted prompt"}}, "error"),
        ("Connection refused while sending 'my prompt'", "error"),
        (["quoted", "prompt"], "error"),
        (True, "error"),
        (504, "504"),
        ("x" * 100, "x" * 64),
        ("", None),
        ("none", None),
        (0, None),
        (False, None),
        (None, None),
        ({}, None),
        ([], None),
        ({"code": None, "message": ""}, None),
        ({"code": 0}, None),
        ([""], None),
    ],
)
def test_of_an_error_only_its_code_is_kept(written, kept):
    assert decode(line(error=written)).error == kept


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/models?api_key=hunter2", "/v1/models"),
        ("https://user:hunter2@host:8000/v1/chat/completions?q=1", "/v1/chat/completions"),
    ],
)
def test_a_path_is_kept_without_what_may_be_secret(written, kept):
    assert decode(line(path=written)).path == kept


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("4BF92F3577B34DA6A3CE929D0E0E4736", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("not-a-trace", None),
    ],
)
def test_a_trace_id_is_a_w3c_one_or_none(written, kept):
    assert decode(line(trace_id=written)).trace_id == kept


@pytest.mark.parametrize("missing", ["ts", "request_id"])
@pytest.mark.parametrize("written", [..., None, "", "-"])
def test_a_record_needs_its_time_and_its_id(missing, written):
    assert reason(line(**{missing: written})) is UnparsedReason.MISSING_FIELD


@pytest.mark.parametrize("kind", ["edges", "", 5, ["edge"], {"a": 1}, True])
def test_a_kind_that_nobody_knows_is_told_apart(kind):
    assert reason(line(kind=kind)) is UnparsedReason.UNKNOWN_KIND


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kind":"sample","ts":1772446500,"running":7}',
        b'{"kind":"limits","ts":1772446500}',
        b'{"kind":"limits","vllm_version":"0.32.0"}',
        b'{"kind":"engine","ts":1772446500}',
    ],
)
def test_the_other_kinds_need_their_own_fields(raw):
    assert reason(raw) is UnparsedReason.MISSING_FIELD


@pytest.mark.parametrize(
    "fields",
    [
        {"ts": "2026-03-02T10:15:00"},
        {"ts": 1772446500010},
        {"ts": -5},
        {"ts": True},
        {"ts": [1]},
        {"request_id": {"id": "abc"}},
        {"request_id": ["abc"]},
        {"request_id": True},
        {"request_id": 1.5},
        {"session_id": {"id": "s"}},
        {"duration_s": "fast"},
        {"duration_s": True},
        {"duration_s": "nan"},
        {"duration_s": "inf"},
        {"prompt_tokens": -1},
        {"prompt_tokens": 1.5},
        {"prompt_tokens": 1e300},
        {"prompt_tokens": 10**400},
        {"prompt_tokens": "many"},
        {"prompt_tokens": [1, 2]},
        {"status": 99},
        {"status": 600},
        {"status": -200},
        {"status": 200.5},
        {"status": "OK"},
        {"outcome": "fine"},
        {"outcome": ["ok"]},
        {"stream": "maybe"},
        {"stream": 2},
        {"kind": "engine", "state": [7, 8]},
        {"kind": "engine", "state": {"kv_usage": 52.6}},
        {"kind": "engine", "state": {"running": -1}},
        {"kind": "limits", "max_num_seqs": 0},
        {"kind": "limits", "max_num_seqs": -8},
    ],
)
def test_a_field_that_cannot_be_right_makes_the_line_no_record(fields):
    assert reason(line(**fields)) is UnparsedReason.BAD_FIELD


def test_a_bad_field_is_named_and_its_value_is_not():
    with pytest.raises(RecordError) as caught:
        decode(line(duration_s="hunter2"))
    assert "duration_s" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("wrong", [-0.001, 86_401, 1e300, 10**30, "-1", float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_not_known_and_costs_nothing_else(wrong):
    assert decode(line(duration_s=wrong, ttft_s=0.2)) == decode(line(ttft_s=0.2))
    assert decode(line(duration_s=wrong, ttft_s=0.2), FieldMap({})) == decode(line(ttft_s=0.2))
    part = {
        "kind": "engine",
        "e2e_s": 1.2,
        "completion_tokens": 64,
        "finish_reason": "stop",
        "preemptions": 2,
    }
    assert decode(line(**part, queue_s=wrong)) == decode(line(**part))


def test_whether_a_time_is_longer_than_its_whole_is_not_the_lines_to_say():
    assert decode(line(duration_s=1.0, ttft_s=3600.0)).ttft_s == 3600.0
    assert decode(line(kind="engine", e2e_s=1.2, queue_s=5000.0)).queue_s == 5000.0


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", UnparsedReason.NOT_JSON),
        (b"plain warning", UnparsedReason.NOT_JSON),
        (b'{"ts":1772446500,"request_id":"ab', UnparsedReason.NOT_JSON),
        (line()[:-1], UnparsedReason.NOT_JSON),
        (line() + line(), UnparsedReason.NOT_JSON),
        (b'{"a":' * 100_000, UnparsedReason.NOT_JSON),
        (b'{"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}", UnparsedReason.NOT_JSON),
        (b"{\x00}", UnparsedReason.NOT_JSON),
        (b"[1,2]", UnparsedReason.NOT_OBJECT),
        (b'"text"', UnparsedReason.NOT_OBJECT),
        (b"17", UnparsedReason.NOT_OBJECT),
        (b"null", UnparsedReason.NOT_OBJECT),
        (b"NaN", UnparsedReason.NOT_OBJECT),
        (b"\xff\xfe{\x00}\x00", UnparsedReason.NOT_UTF8),
        (b"caf\xe9", UnparsedReason.NOT_UTF8),
        (b'{"ts":1772446500,"request_id":"caf\xe9","status":200}', UnparsedReason.NOT_UTF8),
        (b'{"ts":1772446500,"request_id":"\\ud83d","status":200}', UnparsedReason.NOT_UTF8),
        (line(note="x" * (1 << 20)), UnparsedReason.TOO_LONG),
    ],
)
def test_what_is_no_json_object_says_why(raw, expected):
    assert reason(raw) is expected


@pytest.mark.parametrize(
    "note",
    [
        b'"cut in an emoji \\ud83d"',
        b'"caf\xe9"',
        b'"a\ttab"',
        b'"a\x01control"',
        b"NaN",
        b"-Infinity",
        b"9" * 9000,
    ],
)
def test_what_is_odd_in_a_field_that_is_not_ours_does_no_harm(note):
    assert decode(line()[:-1] + b',"note":' + note + b"}") == decode(line())


def test_a_byte_order_mark_does_no_harm():
    assert decode(b"\xef\xbb\xbf" + line()) == decode(line())


def test_of_a_field_that_comes_twice_the_last_counts():
    assert decode(line()[:-1] + b',"request_id":"later"}').request_id == "later"


def test_control_characters_in_an_id_are_kept_so_that_it_stays_itself():
    assert decode(line(request_id="a\u0000b\u001b[31m\n")).request_id == "a\x00b\x1b[31m\n"


def test_a_long_id_is_bounded_and_stays_equal_to_itself_alone():
    long = "a" * 500_000
    one, again, other = (decode(line(request_id=rid)).request_id for rid in (long, long, long + "b"))
    assert one == again != other
    assert len(one) == 256
    assert one.startswith("a" * 160)
    assert one.endswith("a" * 79)


@pytest.mark.parametrize("sent", ["sitzung-ü", "会話-17", "Ã¼", "é"])
def test_an_id_is_the_same_as_its_sender_wrote_it_and_as_vllm_reads_the_header(sent):
    in_vllm = sent.encode().decode("latin-1")
    assert decode(line(request_id=sent)).request_id == decode(line(request_id=in_vllm)).request_id
    assert decode(line(request_id="caf\xe9")).request_id == "caf\xe9"


def test_an_id_of_256_characters_is_whole():
    assert decode(line(request_id="b" * 256)).request_id == "b" * 256
