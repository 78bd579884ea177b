from __future__ import annotations

import pytest

from vllm_observe.cli.words import amount, duration, percent, printable


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (0.0, "0"),
        (8.0, "8"),
        (0.25, "0.25"),
        (3.14159, "3.14"),
        (99.97, "100"),
        (2276.3, "2,276"),
        (12_032, "12,032"),
        (99_999.7, "100 k"),
        (1_234_567, "1.23 M"),
        (9.9e13, "99 T"),
        (1e308, "1e+296 T"),
    ],
)
def test_amounts_are_short(value, text):
    assert amount(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "—"),
        (0.0, "0 s"),
        (0.000001, "< 0.01 ms"),
        (0.0071, "7.1 ms"),
        (0.3, "300 ms"),
        (0.9999, "1 s"),
        (2.414, "2.41 s"),
        (320.0, "320 s"),
        (599.6, "600 s"),
        (900.0, "15 min"),
        (9000.0, "2.5 h"),
        (172_800.0, "2 d"),
        (1e300, "1.16e+295 d"),
    ],
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "—"),
        (0.0, "0 %"),
        (6.1e-05, "< 0.1 %"),
        (0.002, "0.2 %"),
        (0.937, "93.7 %"),
        (1.0, "100 %"),
        (8.0, "800 %"),
        (1e300, "1e+302 %"),
    ],
)
def test_only_nothing_is_zero_percent(ratio, text):
    assert percent(ratio) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("meta-llama/Llama-3 8B", "meta-llama/Llama-3 8B"),
        ("模型", "模型"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b2J", r"\x9b2J"),  # the one-byte form of an escape sequence
        ("evil\u202etxt", r"evil\u202etxt"),  # turns the direction of writing
        ("a\u200bb", r"a\u200bb"),  # takes no room
        ("\ud800", r"\ud800"),
    ],
)
def test_nothing_foreign_can_move_the_cursor(text, shown):
    assert printable(text) == shown


def test_foreign_text_is_cut():
    assert printable("x" * 60) == "x" * 60
    assert printable("x" * 1_000_000) == "x" * 59 + "…"
    assert len(printable("\x00" * 100, width=10)) == 10
