from __future__ import annotations

import base64
import json
import math
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from vllm_observe.errors import BodyError, RecordError, UnparsedReason
from vllm_observe.model import Outcome
from vllm_observe.records.otlp import Encoding, Export, answer, read

#: What a real vLLM 0.32.0 sent: two spans.
BODY = (Path(__file__).parents[1] / "data/captures/vllm-0.32.0/otlp-body.bin").read_bytes()
#: A moment after these had ended.
NOW = 1795983000.0
CAPTURED = ExportTraceServiceRequest.FromString(BODY)


def as_json(request: ExportTraceServiceRequest) -> dict:
    """The JSON of the OTLP specification: protobuf's own, but for the ids in hexadecimal digits."""
    document = MessageToDict(request)
    for resource in document["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            for name in ("traceId", "spanId"):
                span[name] = base64.b64decode(span[name]).hex()
    return document


def body(*spans: dict) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def span(**attributes: object) -> dict:
    """A span of vLLM's; dots of the attributes' names are written as two underscores."""
    least = {"gen_ai__request__id": {"stringValue": "chatcmpl-a"}}
    written = {**least, **attributes}
    return {
        "name": "llm_request",
        "endTimeUnixNano": "1795982140094838851",
        "attributes": [{"key": key.replace("__", "."), "value": value} for key, value in written.items()],
    }


def one(**attributes: object):
    export = read(body(span(**attributes)), Encoding.JSON, NOW)
    assert export.refused == []
    (record,) = export.records
    return record


def test_what_a_real_vllm_sent_becomes_its_engine_records():
    export = read(BODY, Encoding.PROTOBUF, NOW)
    sent = [span for scope in CAPTURED.resource_spans[0].scope_spans for span in scope.spans]
    told = [{pair.key: pair.value for pair in span.attributes} for span in sent]
    assert (len(export.records), export.refused, export.others) == (2, [], 0)
    for record, span_sent, values in zip(export.records, sent, told, strict=True):
        assert record.request_id == values["gen_ai.request.id"].string_value
        assert record.ts == pytest.approx(span_sent.end_time_unix_nano / 1e9)
        assert record.e2e_s == values["gen_ai.latency.e2e"].double_value
        assert record.queue_s == values["gen_ai.latency.time_in_queue"].double_value
        assert record.prefill_s == values["gen_ai.latency.time_in_model_prefill"].double_value
        assert record.decode_s == values["gen_ai.latency.time_in_model_decode"].double_value
        assert record.prompt_tokens == values["gen_ai.usage.prompt_tokens"].int_value
        assert record.completion_tokens == values["gen_ai.usage.completion_tokens"].int_value
        assert record.max_tokens == values["gen_ai.request.max_tokens"].int_value
        assert (record.model, record.engine, record.finish_reason) == (None, None, None)
        assert record.outcome is Outcome.OK  # vLLM sends none for a request that was cut off


def test_both_encodings_say_the_same():
    assert read(json.dumps(as_json(CAPTURED)).encode(), Encoding.JSON, NOW) == read(
        BODY, Encoding.PROTOBUF, NOW
    )


def test_unknown_fields_and_other_spans_are_passed_over():
    document = as_json(CAPTURED)
    document["new"] = {"a": [1]}
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= {"name": "Overall Loading", "new": 1}
    export = read(json.dumps(document).encode(), Encoding.JSON, NOW)
    assert (len(export.records), export.others) == (1, 1)


def test_v0_names_the_model_and_its_first_token_ends_the_prefill():
    record = one(
        gen_ai__response__model={"stringValue": "tiny"},
        gen_ai__latency__e2e={"doubleValue": 4.0},
        gen_ai__latency__time_in_queue={"doubleValue": 0.5},
        gen_ai__latency__time_to_first_token={"doubleValue": 1.0},
        gen_ai__usage__completion_tokens={"intValue": "31"},
    )
    assert record.model == "tiny"
    assert (record.queue_s, record.prefill_s, record.decode_s) == (0.5, 0.5, 3.0)
    assert record.tpot_s == pytest.approx(0.1)  # 3 s for the 30 tokens after the first


@pytest.mark.parametrize("tokens", ["0", "1"])
def test_the_first_token_alone_has_no_time_per_token(tokens):
    record = one(
        gen_ai__latency__time_in_model_decode={"doubleValue": 0.0},
        gen_ai__usage__completion_tokens={"intValue": tokens},
    )
    assert record.tpot_s is None


@pytest.mark.parametrize("value", [-1.0, 1e9, "NaN", "Infinity", "-Infinity", None])
def test_a_time_that_cannot_be_is_not_known(value):
    assert one(gen_ai__latency__time_in_queue={"doubleValue": value}).queue_s is None


@pytest.mark.parametrize(
    "written", [{"intValue": 5}, {"intValue": "5"}, {"doubleValue": 5}, {"stringValue": "5"}]
)
def test_a_number_may_be_written_in_any_way(written):
    assert one(gen_ai__usage__prompt_tokens=written).prompt_tokens == 5


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (span(gen_ai__request__id=None), UnparsedReason.MISSING_FIELD),
        (span(gen_ai__request__id={"arrayValue": {"values": []}}), UnparsedReason.MISSING_FIELD),
        (span(gen_ai__request__id={"doubleValue": 1.5}), UnparsedReason.BAD_FIELD),
        (span(gen_ai__usage__prompt_tokens={"intValue": "-1"}), UnparsedReason.BAD_FIELD),
        (span(gen_ai__usage__completion_tokens={"boolValue": True}), UnparsedReason.BAD_FIELD),
        (span(gen_ai__usage__completion_tokens={"stringValue": "a prompt"}), UnparsedReason.BAD_FIELD),
        (span(gen_ai__latency__e2e={"stringValue": "soon"}), UnparsedReason.BAD_FIELD),
        ({"name": "llm_request"}, UnparsedReason.MISSING_FIELD),
        ({**span(), "endTimeUnixNano": "0"}, UnparsedReason.MISSING_FIELD),
        ({**span(), "endTimeUnixNano": "9" * 5000}, UnparsedReason.MISSING_FIELD),
        ({**span(), "endTimeUnixNano": -5}, UnparsedReason.BAD_FIELD),
        ({**span(), "endTimeUnixNano": "4102444800000000000"}, UnparsedReason.BAD_FIELD),  # in 2100
    ],
)
def test_a_span_that_is_no_record_is_refused_and_its_neighbours_are_taken(bad, reason):
    export = read(body(span(), bad, span()), Encoding.JSON, NOW)
    assert len(export.records) == 2
    assert [error.reason for error in export.refused] == [reason]
    assert "a prompt" not in str(export.refused[0])


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"\x0a\xff", Encoding.PROTOBUF),
        (b"not protobuf", Encoding.PROTOBUF),
        (b"", Encoding.JSON),
        (b"{", Encoding.JSON),
        (b"[]", Encoding.JSON),
        (b'{"resourceSpans":{}}', Encoding.JSON),
        (b'{"resourceSpans":[' * 100_000, Encoding.JSON),
    ],
)
def test_a_body_that_holds_no_traces_is_refused_as_a_whole(content, encoding):
    with pytest.raises(BodyError):
        read(content, encoding, NOW)


@pytest.mark.parametrize(("content", "encoding"), [(b"", Encoding.PROTOBUF), (b"{}", Encoding.JSON)])
def test_an_empty_request_is_one(content, encoding):
    assert read(content, encoding, NOW) == Export([], [], 0)


def test_an_answer_is_empty_or_says_how_many_were_rejected_and_why():
    good = Export([], [], 0)
    poor = Export([], [RecordError(UnparsedReason.BAD_FIELD, "e2e_s is no number")] * 3, 0)
    assert answer(good, Encoding.PROTOBUF) == b""
    assert answer(good, Encoding.JSON) == b"{}"
    written = ExportTraceServiceResponse.FromString(answer(poor, Encoding.PROTOBUF)).partial_success
    assert (written.rejected_spans, written.error_message) == (3, "the first: e2e_s is no number")
    assert json.loads(answer(poor, Encoding.JSON)) == {
        "partialSuccess": {"rejectedSpans": "3", "errorMessage": "the first: e2e_s is no number"}
    }


def test_protobuf_holds_what_json_cannot():
    request = ExportTraceServiceRequest()
    sent = request.resource_spans.add().scope_spans.add().spans.add()
    sent.name, sent.end_time_unix_nano = "llm_request", 1795982140094838851
    for key, value in {"gen_ai.latency.e2e": math.nan, "gen_ai.latency.time_in_queue": math.inf}.items():
        sent.attributes.add(key=key).value.double_value = value
    sent.attributes.add(key="gen_ai.request.id").value.string_value = "a"
    (record,) = read(request.SerializeToString(), Encoding.PROTOBUF, NOW).records
    assert (record.e2e_s, record.queue_s) == (None, None)
