from __future__ import annotations

import pytest

from vllm_observe.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5),
        ("5s", 5),
        ("250ms", 0.25),
        ("1.5 s", 1.5),
        (" 10m ", 600),
        ("2h", 7200),
        ("1d", 86_400),
        ("0", 0),
    ],
)
def test_a_duration_is_read_with_its_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-5s", "5 sec", "1e3", "nan", "inf", "5s5", "\u0665s", "9" * 400, "5\n6"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="must be a duration such as 5, 5s, 250ms or 10m"):
        parse_duration(text)
