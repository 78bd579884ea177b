"""How fast a request log is read: our decoder beside ``json.loads`` with the same checks by hand.

Run ``pytest tests/bench/test_bench_records.py``: the numbers in brackets are ratios within a group,
measured in one run.
"""

from __future__ import annotations

import json

import pytest

from vllm_observe.clock import SystemClock
from vllm_observe.model import EdgeRecord, Outcome
from vllm_observe.records.follow import Follower
from vllm_observe.records.format1 import decode
from vllm_observe.records.reader import RecordReader
from vllm_observe.records.source import Source

FIELDS = {
    "ts": 1772446500.01,
    "request_id": "3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f",
    "session_id": "sess-17",
    "profile": "coder",
    "client": "web",
    "model": "Qwen/Qwen2.5-0.5B-Instruct",
    "path": "/v1/chat/completions",
    "stream": True,
    "status": 200,
    "outcome": "ok",
    "duration_s": 1.9,
    "ttft_s": 0.21,
    "prompt_tokens": 418,
    "completion_tokens": 64,
    "cached_tokens": 384,
}
LINE = json.dumps(FIELDS).encode()


def is_amount(value: object) -> bool:
    return type(value) is int and 0 <= value <= 10**15


def is_duration(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value <= 86_400


def is_text(value: object) -> bool:
    return type(value) is str and 0 < len(value.strip()) <= 256


CHECKS = {
    "ts": lambda value: type(value) in (int, float) and 0 <= value < 1e11,
    "request_id": is_text,
    "session_id": is_text,
    "profile": is_text,
    "client": is_text,
    "model": is_text,
    "path": is_text,
    "stream": lambda value: type(value) is bool,
    "status": lambda value: type(value) is int and 100 <= value <= 599,
    "duration_s": is_duration,
    "ttft_s": is_duration,
    "prompt_tokens": is_amount,
    "completion_tokens": is_amount,
    "cached_tokens": is_amount,
}


def by_hand(line: bytes) -> EdgeRecord:
    """Decode a line with the standard library alone: the same checks, the same record."""
    fields = json.loads(line)
    taken = {}
    for name, check in CHECKS.items():
        value = fields.get(name)
        if value is not None:
            if not check(value):
                raise ValueError(name)
            taken[name] = value
    return EdgeRecord(outcome=Outcome(fields["outcome"]), **taken)


@pytest.mark.benchmark(group="one line of a request log")
def test_json_loads_and_checks_by_hand(benchmark):
    benchmark(by_hand, LINE)


@pytest.mark.benchmark(group="one line of a request log")
def test_decode(benchmark):
    assert benchmark(decode, LINE) == by_hand(LINE)


@pytest.mark.benchmark(group="a request log from the disk to records")
def test_read_a_log(benchmark, tmp_path):
    log = tmp_path / "app.jsonl"
    log.write_bytes((LINE + b"\n") * 20_000)

    def read() -> int:
        clock = SystemClock()
        follower = Follower(sources=[Source(str(log))], clock=clock)
        reader = RecordReader(follower=follower, clock=clock)
        count = len(reader.poll())
        while follower.behind:
            count += len(reader.poll())
        follower.close()
        return count

    assert benchmark(read) == 20_000
