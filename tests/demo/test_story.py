from __future__ import annotations

import json
import threading
from collections import Counter
from itertools import islice, takewhile
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vllm_observe.clock import ManualClock
from vllm_observe.demo.story import OUTPUT_TOKENS, PROMPT_TOKENS, QUEUE_S, Ended, ended_requests, write_log
from vllm_observe.model import EdgeRecord, Outcome
from vllm_observe.records.format1 import decode

CAPTURES = Path(__file__).parents[1] / "data/captures/vllm-0.32.0"


@pytest.fixture(scope="module")
def gained():
    """What a histogram of the real vLLM gained within the recorded second: by bucket, and in all."""

    def samples(name: str) -> dict:
        page = (CAPTURES / name).read_text(encoding="utf-8")
        return {
            (sample.name, sample.labels.get("le")): sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
        }

    first, later = samples("saturated.prom"), samples("saturated-1s-later.prom")

    def of(name: str) -> tuple[dict[float, int], float]:
        buckets = {
            float(le): int(later[key, le] - first[key, le])
            for key, le in first
            if key == f"vllm:{name}_bucket"
        }
        return buckets, later[f"vllm:{name}_sum", None] - first[f"vllm:{name}_sum", None]

    return of


def in_buckets(values, buckets):
    return {bound: sum(value <= bound for value in values) for bound in buckets}


@pytest.mark.parametrize(
    ("values", "histogram", "off_by"),
    [
        (PROMPT_TOKENS, "request_prompt_tokens", 0),
        (OUTPUT_TOKENS, "request_generation_tokens", 0),
        (QUEUE_S, "request_queue_time_seconds", 0.1),
    ],
)
def test_the_twelve_requests_are_those_that_ended_in_the_recorded_second(values, histogram, off_by, gained):
    buckets, total = gained(histogram)
    assert in_buckets(values, buckets) == buckets
    assert sum(values) == pytest.approx(total, abs=off_by)


def test_each_second_of_the_load_takes_the_time_that_the_recorded_one_took(gained):
    served = [end.record for end in ends(until=11) if end.at >= 10 and end.record["outcome"] == "ok"]
    buckets, decode_s = gained("request_decode_time_seconds")
    decoding = [record["duration_s"] - record["ttft_s"] for record in served]
    assert in_buckets(decoding, buckets) == buckets
    assert sum(decoding) == pytest.approx(decode_s, rel=0.01)
    _, prefill_s = gained("request_prefill_time_seconds")
    prefilling = sum(record["ttft_s"] for record in served) - sum(QUEUE_S)
    assert prefilling == pytest.approx(prefill_s, rel=0.01)


def ends(*, until: float) -> list[Ended]:
    return list(takewhile(lambda end: end.at < until, ended_requests()))


def test_requests_end_one_after_the_other_and_began_under_load():
    told = ends(until=30)
    assert [end.at for end in told] == sorted(end.at for end in told)
    assert all(end.record["duration_s"] <= end.at for end in told)
    assert len({end.record["request_id"] for end in told}) == len(told)


def test_one_request_in_forty_is_refused_or_left_by_its_client():
    outcomes = Counter(end.record["outcome"] for end in islice(ended_requests(), 800))
    assert outcomes == {"ok": 780, "error": 10, "abort": 10}


def test_the_story_is_the_same_each_time():
    assert list(islice(ended_requests(), 100)) == list(islice(ended_requests(), 100))


class StoppingClock(ManualClock):
    """A clock that sets the stop instead of waiting for longer than so many seconds in all."""

    def __init__(self, *, after: float) -> None:
        super().__init__()
        self._end = self.monotonic() + after

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        if self.monotonic() + seconds > self._end:
            stop.set()
        return super().wait(stop, seconds)


@pytest.fixture
def written(tmp_path):
    log = tmp_path / "requests.jsonl"
    write_log(log, load_at=6.0, clock=StoppingClock(after=20.0), stop=threading.Event())
    return log.read_bytes().splitlines()


def test_the_log_is_in_record_format_1(written):
    records = [decode(line) for line in written]
    assert all(isinstance(record, EdgeRecord) for record in records)
    assert {record.profile for record in records} == {"assistant", "coder", "summarizer"}
    assert {record.session_id for record in records} == {f"user-{number}" for number in range(7)}
    assert {Outcome.OK, Outcome.ERROR, Outcome.ABORT} == {record.outcome for record in records}
    load_at = ManualClock().wall() + 6.0
    assert all(load_at < record.started_at + 0.001 for record in records)


def test_a_line_is_written_when_its_request_ends(written):
    began = ManualClock().wall() + 6.0
    at = [json.loads(line)["ts"] - began for line in written]
    assert at == pytest.approx([end.at for end in ends(until=14.0)], abs=0.001)


def test_the_log_holds_neither_prompts_nor_outputs(written):
    fields = {field for line in written for field in json.loads(line)}
    assert fields <= {
        *(
            "ts",
            "request_id",
            "session_id",
            "profile",
            "model",
            "path",
            "stream",
            "status",
            "outcome",
            "error",
        ),
        *("duration_s", "ttft_s", "prompt_tokens", "completion_tokens"),
    }
