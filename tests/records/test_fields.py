from __future__ import annotations

import json

import pytest

from vllm_observe.config import FieldRule, RequestLog
from vllm_observe.errors import ConfigError, RecordError, UnparsedReason
from vllm_observe.model import EdgeRecord, EngineRecord, Outcome
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.format1 import decode


def mapped(fields: dict) -> FieldMap:
    """Make a map as a configuration writes it."""
    return FieldMap(RequestLog(path="app.jsonl", fields=fields).fields)


def read(fields: dict, **line: object) -> object:
    least = {"ts": 1772446500, "request_id": "abc", "status": 200}
    return decode(json.dumps({**least, **line}).encode(), mapped(fields))


def test_the_app_log_of_case_09_becomes_three_requests(request):
    lines = (
        (request.config.rootpath / "tests/data/cases/09-id-suffix-join/app.jsonl").read_bytes().splitlines()
    )
    fields = mapped(
        {
            "request_id": "x_request_id",
            "duration_s": {"from": "latency_ms", "scale": 0.001},
            "ttft_s": {"from": "ttft_ms", "scale": 0.001},
        }
    )
    records = [decode(line, fields) for line in lines]
    assert [record.request_id for record in records] == [
        "3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f",
        "deadbeefcafe0001",
        "never-reached-vllm",
    ]
    assert [record.session_id for record in records] == ["sess-17", "sess-18", "sess-18"]
    assert [record.duration_s for record in records] == pytest.approx([1.9, 0.3, 0.004])
    assert [record.ttft_s for record in records] == [pytest.approx(0.21), None, None]
    assert [record.outcome for record in records] == [Outcome.OK, Outcome.OK, Outcome.ERROR]


def test_a_name_leads_into_objects_arrays_and_json_in_a_string():
    record = read(
        {
            "session_id": "metadata.user_id.session_id",
            "profile": "tags.1",
            "model": "request.body.model",
        },
        metadata={"user_id": '{"device_id":"d","session_id":"s-9"}'},
        tags=["first", "coder"],
        request={"body": {"model": "Qwen"}},
    )
    assert (record.session_id, record.profile, record.model) == ("s-9", "coder", "Qwen")


def test_a_key_that_holds_the_dots_itself_comes_first():
    assert (
        read({"profile": "labels.app"}, **{"labels.app": "flat", "labels": {"app": "deep"}}).profile == "flat"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        7,
        "user_1_session_2",
        "{not json",
        {"user_id": None},
        {"user_id": "{"},
        {"user_id": "\ud83d"},
        [],
        {"user_id": "[" * 20_000},
    ],
)
def test_a_way_that_leads_nowhere_is_no_session_and_no_error(metadata):
    assert read({"session_id": "metadata.user_id.session_id"}, metadata=metadata).session_id is None


@pytest.mark.parametrize(
    ("written", "seconds"), [(350, 0.35), ("350", 0.35), ("-", None), ("", None), (None, None)]
)
def test_a_scale_makes_seconds_of_milliseconds(written, seconds):
    record = read({"duration_s": {"from": "latency_ms", "scale": 0.001}}, latency_ms=written)
    assert record.duration_s == (seconds if seconds is None else pytest.approx(seconds))


def test_a_time_in_milliseconds_can_be_scaled_too():
    assert read({"ts": {"from": "time_ms", "scale": 0.001}}, time_ms=1772446500250).ts == 1772446500.25


def test_a_scale_of_one_changes_nothing_so_names_pass_too():
    assert read({"request_id": {"from": "rid", "scale": 1.0}}, rid="abc-1").request_id == "abc-1"


def test_a_value_that_cannot_be_scaled_makes_the_line_no_record():
    with pytest.raises(RecordError, match="duration_s is no number") as caught:
        read({"duration_s": {"from": "latency_ms", "scale": 0.001}}, latency_ms="1,900")
    assert caught.value.reason is UnparsedReason.BAD_FIELD


def test_a_mapped_field_is_not_taken_under_its_own_name():
    with pytest.raises(RecordError) as caught:
        decode(b'{"ts":1772446500,"request_id":"row-5","status":200}', mapped({"request_id": "x_request_id"}))
    assert caught.value.reason is UnparsedReason.MISSING_FIELD


def test_a_field_mapped_to_nothing_is_left_out():
    record = read({"client": None}, client={"address": "192.0.2.1"})
    assert record == EdgeRecord(ts=1772446500.0, request_id="abc", status=200, outcome=Outcome.OK)


def test_an_apps_own_kind_is_not_ours_unless_it_is_mapped():
    assert isinstance(read({"session_id": "sid"}, kind="http"), EdgeRecord)
    assert isinstance(read({"kind": "type"}, type="engine"), EngineRecord)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("reqest_id", "fields.reqest_id is no field of .*; did you mean request_id?"),
        ("zzz", "fields.zzz is no field"),
    ],
)
def test_a_field_that_is_not_ours_is_refused_with_the_near_name(field, message):
    with pytest.raises(ConfigError, match=message):
        FieldMap({field: FieldRule(source="x")})
    with pytest.raises(ConfigError, match=message):
        FieldMap({field: None})
