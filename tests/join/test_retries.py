"""Retries in one log, whose clock may tell whole seconds only, beside vLLM's own text log or not."""

from __future__ import annotations

import pytest

from support.joins import Desk, T, arrival, edge, engine
from vllm_observe.model import Outcome

APP, PROXY, ENGINE = "app.jsonl", "proxy.jsonl", "engine.jsonl"
FAILED_TWICE = ((503, Outcome.REJECTED), (503, Outcome.REJECTED), (200, Outcome.OK))
#: From T to a whole second.
WHOLE = 0.75


def tries(starts, *, took):
    """A request, and two retries of it, as the app's log tells them."""
    return [
        edge(start=at, took=took, status=status, outcome=outcome, source=APP)
        for at, (status, outcome) in zip(starts, FAILED_TWICE, strict=True)
    ]


def by_attempt(closed):
    return sorted(closed, key=lambda request: request.attempt)


@pytest.mark.parametrize(
    ("ends", "took"),
    [
        ((WHOLE, WHOLE + 1, WHOLE + 2), 0.25),  # a second apart, by a clock of whole seconds
        ((WHOLE, WHOLE + 1, WHOLE + 3), 0.0625),
        ((WHOLE, WHOLE + 0.125, WHOLE + 0.25), 0.0625),  # one is whole by chance
        ((WHOLE - 0.125, WHOLE, WHOLE + 0.125), 0.0625),
        ((WHOLE, WHOLE + 5, WHOLE + 10), 4.0),
        ((WHOLE, WHOLE + 1, WHOLE + 2), None),  # for how long is not told
    ],
)
def test_each_line_of_a_log_is_an_attempt_of_its_own_however_coarse_its_clock(ends, took):
    told = tries([end - (took or 0.0) for end in ends], took=took)
    assert any((T + end) % 1 == 0 for end in ends)

    closed = by_attempt(Desk().join(*told))
    assert [(one.attempt, one.outcome) for one in closed] == [
        (number, outcome) for number, (_, outcome) in enumerate(FAILED_TWICE, 1)
    ]


def test_each_attempt_has_its_own_tokens():
    ends = (WHOLE, WHOLE + 1, WHOLE + 2)
    told = tries([end - 0.25 for end in ends], took=0.25)
    parts = [
        engine(start=end - 0.1875, took=0.125, completion_tokens=number, source=ENGINE)
        for number, end in enumerate(ends, 1)
    ]
    closed = by_attempt(Desk().join(*told, *parts))
    assert [one.completion_tokens for one in closed] == [1, 2, 3]


def test_two_logs_of_whole_seconds_tell_one_attempt():
    told = [
        edge(start=WHOLE - took, took=took, source=source) for source, took in ((PROXY, 0.75), (APP, 0.25))
    ]
    (only,) = Desk().join(*told)
    assert len(only.edges) == 2


def test_the_lines_of_vllms_text_log_take_no_engine_record_from_its_attempt():
    starts = (0.125, 0.15625, 0.1875)
    told = tries(starts, took=0.02)
    parts = [
        engine(start=at + 0.001, took=0.018, completion_tokens=number, source=ENGINE)
        for number, at in enumerate(starts, 1)
    ]
    lines = [arrival(at=-0.25, source="vllm.log") for _ in starts]  # their times lack what is below a second
    closed = by_attempt(Desk().join(*lines, *told, *parts))
    assert [one.completion_tokens for one in closed] == [1, 2, 3]
