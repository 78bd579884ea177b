from __future__ import annotations

import pytest

from vllm_observe.join.cardinality import LabelCap


def test_the_first_values_keep_their_names_and_later_ones_are_other():
    cap = LabelCap(limit=2)
    assert [cap.label(value) for value in ("coder", "assistant", "coder", "x1", "x2", "assistant")] == [
        "coder",
        "assistant",
        "coder",
        "other",
        "other",
        "assistant",
    ]
    assert cap.overflowed == 2


@pytest.mark.parametrize("value", [None, ""])
def test_an_unknown_value_is_empty_and_takes_no_place(value):
    cap = LabelCap(limit=1)
    assert cap.label(value) == ""
    assert cap.label("coder") == "coder"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb", "a?b"),
        ("a\x00\x1b[31m", "a??[31m"),
        ("\ud800", "?"),
        ("\u202eabc", "?abc"),  # turns the reading direction around
        ("größe 大", "größe 大"),
        ("x" * 1_000_000, "x" * 64),
    ],
)
def test_values_are_short_and_printable(value, shown):
    assert LabelCap(limit=1).label(value) == shown


def test_values_that_look_the_same_share_a_place():
    cap = LabelCap(limit=1)
    assert cap.label("x" * 64) == cap.label("x" * 65) == "x" * 64
    assert cap.overflowed == 0
