from __future__ import annotations

import pytest

from vllm_observe.clock import ManualClock
from vllm_observe.records.shown import RateLimit, show


def test_of_an_object_the_names_stay_and_the_values_become_shapes():
    assert show(b'{"ts":"2026-03-02 10:15:00","request_id":"Abc-1", "latency_ms": 1900,"ok":true}') == (
        '{"ts":"9999-99-99 99:99:99","request_id":"xxx-9", "latency_ms": 9999,"ok":true}'
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"prompt":"tell hunter2 to nobody"',
        b'{"messages":[{"role":"user","content":"hunter2, \\"hunter\\": hunter2"}]}',
        b'{"hunter2":1}',
        b"{'prompt': 'hunter2'}",
        b"Received request x: prompt: '{\"hunter\": 2}', params: SamplingParams(n=1)",
        b'and then, "hunter": he said',
        b"Authorization: Bearer sk-hunter2",
        b"password=hunter2",
        b"hunter2",
        "охотник hunter2".encode(),
    ],
)
def test_nothing_that_a_line_says_is_shown(line):
    shown = show(line)
    assert "hunter" not in shown
    assert "sk-" not in shown
    assert "2" not in shown


def test_words_that_loggers_write_stay():
    assert show(b'INFO:  10.0.0.1 - "POST /v1/x HTTP/1.1" 200 OK').startswith('INFO:  99.9.9.9 - "POST /')
    assert show(b"Traceback (most recent") == "Traceback (xxxx xxxxxx"


def test_control_characters_and_other_scripts_cannot_reach_the_terminal():
    shown = show(b"\x1b[2J\r\n\x00\x7f\xff" + "ж№\u202e\u2028".encode())
    assert shown == r"\x1b[9x\x0d\x0a\x00\x7f?x???"
    assert shown.isascii()


def test_only_the_first_120_bytes_are_shown():
    assert show(b"-" * 121) == "-" * 120 + "..."
    assert show(b"-" * 120) == "-" * 120


def test_a_few_pass_in_a_period_and_the_rest_is_counted():
    clock = ManualClock()
    limit = RateLimit(clock, most=2, period=60.0)
    assert [limit.passes() for _ in range(5)] == [True, True, False, False, False]
    assert limit.held_back() == 0  # the period is not over
    clock.advance(60)
    assert limit.held_back() == 3
    assert limit.held_back() == 0
    assert limit.passes()
