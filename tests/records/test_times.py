from __future__ import annotations

import pytest

from vllm_observe.records.times import epoch

# 2026-03-02T10:15:00Z, by `date -u -d 2026-03-02T10:15:00Z +%s`
TEN_FIFTEEN = 1772446500


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (TEN_FIFTEEN, TEN_FIFTEEN),
        (1772446500.25, 1772446500.25),
        ("1772446500.25", 1772446500.25),
        ("1.7724465e9", TEN_FIFTEEN),
        ("2026-03-02T10:15:00Z", TEN_FIFTEEN),
        ("2026-03-02T10:15:00.010Z", TEN_FIFTEEN + 0.01),
        ("2026-03-02T10:15:00.5Z", TEN_FIFTEEN + 0.5),
        ("2026-03-02T10:15:00.123456789Z", TEN_FIFTEEN + 0.123457),
        ("2026-03-02t10:15:00z", TEN_FIFTEEN),
        ("2026-03-02 10:15:00Z", TEN_FIFTEEN),
        ("2026-03-02T12:15:00+02:00", TEN_FIFTEEN),
        ("2026-03-02T12:15:00+0200", TEN_FIFTEEN),
        ("2026-03-02T04:45:00-05:30", TEN_FIFTEEN),
        (" 2026-03-02T10:15:00Z\t", TEN_FIFTEEN),
        ("2016-12-31T23:59:60Z", 1483228800),  # the last leap second
        ("2016-12-31T23:59:60.5Z", 1483228800.5),
    ],
)
def test_a_time_is_read_as_seconds_since_the_epoch(written, seconds):
    assert epoch(written) == pytest.approx(seconds, abs=2e-6)


def test_a_time_without_a_zone_is_refused_and_the_mend_is_told():
    with pytest.raises(ValueError, match="no time zone: end it in Z"):
        epoch("2026-03-02T10:15:00")


@pytest.mark.parametrize("written", [1772446500010, "1772446500010", 1.772446500010e18])
def test_milliseconds_are_not_taken_for_seconds(written):
    with pytest.raises(ValueError, match="milliseconds"):
        epoch(written)


@pytest.mark.parametrize(
    "written",
    [-1, "1969-12-31T23:59:59Z", float("nan"), float("inf"), "nan", "1e400", "", "yesterday", "12:15:00Z"],
)
def test_what_is_no_time_is_refused(written):
    with pytest.raises(ValueError, match=r"lies before|is neither|is no number"):
        epoch(written)


@pytest.mark.parametrize(
    "written",
    [
        "2026-02-30T10:15:00Z",
        "2026-13-01T10:15:00Z",
        "2026-03-02T24:15:00Z",
        "2026-03-02T10:15:61Z",
        "0000-01-01T00:00:00Z",
        "2026-03-02T10:15:00+99:99",
        "٢٠٢٦-03-02T10:15:00Z",
    ],
)
def test_a_day_or_an_hour_that_is_not_in_the_calendar_is_refused(written):
    with pytest.raises(ValueError, match="neither epoch seconds nor RFC 3339"):
        epoch(written)
