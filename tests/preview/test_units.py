"""Values as Grafana's own tests have them (valueFormats.test.ts), and as its rule for decimals gives them."""

from __future__ import annotations

import math

import pytest

from vllm_observe.preview.units import formatter


@pytest.mark.parametrize(
    ("unit", "value", "decimals", "written"),
    [
        ("ms", 0.0024, 1, "2.4 µs"),
        ("ms", 100, 0, "100 ms"),
        ("ms", 1250, 2, "1.25 s"),
        ("ms", 10000086.123, 1, "2.8 hour"),
        ("ms", 1200, 0, "1 s"),
        ("s", 10000.086, 1, "2.8 hour"),
        ("short", 98765, 2, "98.77 K"),
        ("short", 9876543, 6, "9.876543 Mil"),
        ("bytes", 10000000 * 1024, 3, "9.537 GiB"),
        ("decbytes", 10000000 * 1000, 3, "10.000 GB"),
        ("", 100, 1, "100.0"),
        ("", 100.37, 1, "100.4"),
        ("", 100.63, 1, "100.6"),
        ("", 100.4, 2, "100.40"),
        ("", 100.5, 2, "100.50"),
        ("none", 100.4, None, "100"),
        ("none", 100.5, None, "101"),
    ],
)
def test_a_value_is_written_as_grafana_writes_it(unit, value, decimals, written):
    assert formatter(unit)(value, decimals) == written


@pytest.mark.parametrize(
    ("unit", "value", "written"),
    [
        ("percentunit", 0.975, "97.5%"),
        ("percentunit", 1.0, "100%"),
        ("s", 0.0, "0 s"),
        ("s", 0.25, "250 ms"),
        ("s", 90.0, "1.50 min"),
        ("short", 64.0, "64"),
        ("short", 256000.0, "256 K"),
        ("reqps", 2500.0, "2.50K req/s"),
        ("si:tok/s", 1500.0, "1.50 ktok/s"),
        ("si:tok/s", 0.5, "500 mtok/s"),
        ("suffix:x", 14.4, "14.4 x"),
        ("prefix:~", 3.0, "~3"),
        ("celsius", 71.0, "71 °C"),
        ("no such unit", 3.0, "3 no such unit"),
        ("short", math.inf, "∞"),
        ("short", -math.inf, "-∞"),
        ("bytes", math.nan, "NaN"),
    ],
)
def test_without_decimals_it_has_as_many_as_its_size_deserves(unit, value, written):
    assert formatter(unit)(value, None) == written
