"""What people write into a query, and what it is taken for."""

from __future__ import annotations

import re

import pytest

from vllm_observe.model import Cause, Outcome
from vllm_observe.serve.api.questions import PARAMETERS, QuestionError, read_question
from vllm_observe.store.protocol import MOST_PER_PAGE, RequestFilter

NOW = 1_790_000_000.0


def asked(**given):
    return read_question(given.items(), now=NOW)


def test_nothing_asked_means_the_newest_of_all():
    assert asked() == (RequestFilter(), 50, None)


def test_each_parameter_becomes_its_condition():
    question = asked(
        session_id="s",
        profile="coder",
        client="web",
        model="tiny",
        outcome="abort",
        cause="queue_slots",
        slower_than="2.5",
        limit="7",
        cursor="abc",
    )
    assert question.where == RequestFilter(
        session_id="s",
        profile="coder",
        client="web",
        model="tiny",
        outcome=Outcome.ABORT,
        cause=Cause.QUEUE_SLOTS,
        slower_than=2.5,
    )
    assert (question.limit, question.cursor) == (7, "abc")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", NOW - 900),
        ("2h", NOW - 7200),
        ("1d", NOW - 86_400),
        ("1790000000", 1_790_000_000.0),  # a bare number is no age
        ("1790000000.25", 1_790_000_000.25),
        ("2026-09-21T14:13:20Z", 1_790_000_000.0),
        ("2026-09-21T16:13:20+02:00", 1_790_000_000.0),
    ],
)
def test_a_time_is_an_age_epoch_seconds_or_rfc_3339(text, seconds):
    assert asked(since=text).where.since == seconds
    assert asked(until=text).where.until == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("2.5", 2.5), ("100ms", 0.1), ("2.5s", 2.5), ("1m", 60.0), ("1h", 3600.0)],
)
def test_a_duration_is_seconds_or_has_a_unit(text, seconds):
    assert asked(slower_than=text).where.slower_than == seconds


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("since", "yesterday"),
        ("since", "2026-09-21T14:13:20"),  # no zone
        ("until", ""),
        ("until", "-5m"),
        ("slower_than", "fast"),
        ("slower_than", "-1"),
        ("slower_than", "nan"),
        ("slower_than", "inf"),
        ("limit", "0"),
        ("limit", "-1"),
        ("limit", str(MOST_PER_PAGE + 1)),
        ("limit", "1e2"),
        ("limit", "٣"),  # a digit, and no number that int() may read here
        ("limit", "9" * 5000),
        ("outcome", "okay"),
        ("outcome", "OK"),
        ("cause", "slow"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_its_name(name, text):
    with pytest.raises(QuestionError, match=f"^{name} must "):
        asked(**{name: text})


def test_an_unknown_parameter_is_refused_with_the_near_name():
    with pytest.raises(QuestionError, match="did you mean outcome"):
        asked(outome="ok")
    with pytest.raises(QuestionError, match="there are session_id, "):
        asked(zzz="ok")


def test_a_parameter_given_twice_is_refused():
    with pytest.raises(QuestionError, match="profile is given twice"):
        read_question([("profile", "a"), ("profile", "b")], now=NOW)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("since", "15m"),
        ("since", "250ms"),
        ("since", "1.5h"),
        ("since", "999999999999d"),
        ("since", "0"),
        ("since", "9999999999.999999"),
        ("since", "1971-01-28T00:00:00+13:59"),
        ("since", "2099-12-28T23:59:59Z"),
        ("slower_than", "0"),
        ("slower_than", "2.5"),
        ("slower_than", "0.1ms"),
        ("slower_than", "999999999999d"),
    ],
)
def test_what_a_pattern_describes_is_understood(name, text):
    pattern = next(p.schema["pattern"] for p in PARAMETERS if p.name == name)
    assert re.fullmatch(pattern, text)
    asked(**{name: text})
