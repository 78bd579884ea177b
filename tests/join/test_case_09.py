"""Case 09: ids as an app writes them and as vLLM's log repeats them (tests/data/cases/09-id-suffix-join)."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from support.joins import Desk
from vllm_observe.model import EdgeRecord, EngineRecord, Outcome, Parts

CASE = Path(__file__).parent.parent / "data" / "cases" / "09-id-suffix-join"


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@pytest.fixture
def requests():
    edges = [
        EdgeRecord(
            ts=moment(line["ts"]),
            request_id=line["x_request_id"],
            session_id=line["session_id"],
            status=line["status"],
            outcome=Outcome.OK if line["status"] == 200 else Outcome.ERROR,
            duration_s=line["latency_ms"] / 1000,
        )
        for line in map(json.loads, (CASE / "app.jsonl").read_text().splitlines())
    ]
    engines = [
        EngineRecord(ts=moment(f"2026-{day}T{time}Z"), request_id=request_id)
        for day, time, request_id in re.findall(
            r"INFO (\S+) (\S+) .*?(?:Received request|Added request|Generated response) (\S+?)[.:](?:\s|$)",
            (CASE / "vllm.log").read_text(),
        )
    ]
    assert len(engines) == 5
    return {request.request_id: request for request in Desk().join(*edges, *engines)}


def test_three_requests_come_of_it(requests):
    assert len(requests) == 3


def test_both_forms_of_the_uuid_join_the_first(requests):
    first = requests["3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f"]
    assert (first.session_id, first.parts) == ("sess-17", Parts.BOTH)
    assert {part.request_id for part in first.engines} == {
        "chatcmpl-3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f",
        "chatcmpl-3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f-9be01f77",
    }


def test_an_id_of_hexadecimal_digits_alone_joins_the_second(requests):
    assert requests["deadbeefcafe0001"].parts is Parts.BOTH
    assert len(requests["deadbeefcafe0001"].engines) == 2


def test_what_never_reached_vllm_is_kept(requests):
    third = requests["never-reached-vllm"]
    assert (third.session_id, third.edges[0].status, third.parts) == ("sess-18", 502, Parts.EDGE)
