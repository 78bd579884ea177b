from __future__ import annotations

import math

import pytest

from vllm_observe.engine.quantiles import Distribution, Quantile, distribution
from vllm_observe.model import Family, Kind, Sample, Series

INF = math.inf


def test_a_quantile_is_interpolated_within_its_bucket():
    # ranks 0..10 in (0, 1], 10..30 in (1, 2]: the median's rank is 15, a quarter into the second bucket
    seen = Distribution((1.0, 2.0, INF), (10, 30, 30), 40.0, 30)
    assert seen.quantile(0.5) == Quantile(1.25)


def test_a_quantile_in_the_first_bucket_is_only_known_to_be_below_it():
    seen = Distribution((0.3, 0.5, INF), (99, 100, 100), 0.7, 100)
    assert seen.quantile(0.5) == Quantile(0.3, "below")
    assert seen.mean == pytest.approx(0.007)


def test_a_quantile_beyond_the_last_bound_is_only_known_to_be_above_it():
    seen = Distribution((1.0, INF), (1, 10), 500.0, 10)
    assert seen.quantile(0.95) == Quantile(1.0, "above")


def test_nothing_observed_has_neither_quantile_nor_mean():
    empty = Distribution((1.0, INF), (0, 0), 0.0, 0)
    assert empty.quantile(0.5) is None
    assert empty.mean is None


def test_an_empty_bucket_gives_its_neighbours_bound():
    seen = Distribution((1.0, 2.0, 4.0, INF), (5, 5, 10, 10), 20.0, 10)
    assert seen.quantile(0.5) == Quantile(1.0, "below")
    assert seen.quantile(0.51) == Quantile(pytest.approx(2.0 + 2.0 * 0.1 / 5))


def test_a_window_is_the_difference_of_two_looks():
    before = Distribution((1.0, 2.0, INF), (10, 10, 10), 5.0, 10)
    after = Distribution((1.0, 2.0, INF), (10, 20, 20), 20.0, 20)
    window = after.since(before)
    assert window == Distribution((1.0, 2.0, INF), (0, 10, 10), 15.0, 10)
    assert window.quantile(0.5) == Quantile(1.5)


@pytest.mark.parametrize(
    "after",
    [
        Distribution((1.0, 2.0, INF), (1, 1, 1), 0.5, 1),  # a restart
        Distribution((1.0, 4.0, INF), (10, 20, 20), 20.0, 20),  # other buckets
        Distribution((1.0, 2.0, INF), (20, 15, 15), 20.0, 15),  # not a histogram
    ],
)
def test_looks_that_do_not_belong_together_give_no_window(after):
    assert after.since(Distribution((1.0, 2.0, INF), (10, 10, 10), 5.0, 10)) is None


def test_a_family_is_added_up_over_its_series():
    def series(suffix, engine, **labels):
        return Series("t_seconds" + suffix, (("engine", engine), *labels.items()))

    samples = [
        Sample(series("_bucket", engine, le=bound), value)
        for engine in "01"
        for bound, value in (("0.5", 1.0), ("+Inf", 3.0))
    ]
    samples += [Sample(series("_sum", engine), 4.0) for engine in "01"]
    samples += [Sample(series("_count", engine), 3.0) for engine in "01"]
    family = Family("t_seconds", Kind.HISTOGRAM, "", samples)
    assert distribution([family], "t_seconds") == Distribution((0.5, INF), (2.0, 6.0), 8.0, 6.0)
    assert distribution([family], "other_seconds") is None


def test_of_histograms_with_different_bounds_those_with_the_most_observations_are_added_up():
    def engine(number, bounds, counts, total):
        labels = ("engine", str(number))
        buckets = [
            Sample(Series("t_seconds_bucket", (labels, ("le", le))), count)
            for le, count in zip(bounds, counts, strict=True)
        ]
        return [
            *buckets,
            Sample(Series("t_seconds_count", (labels,)), counts[-1]),
            Sample(Series("t_seconds_sum", (labels,)), total),
        ]

    samples = [
        *engine(0, ("1", "2", "+Inf"), (1.0, 2.0, 3.0), 4.0),
        *engine(1, ("0.5", "+Inf"), (5.0, 5.0), 1.0),
        *engine(2, ("1", "2", "+Inf"), (1.0, 1.0, 4.0), 9.0),
    ]
    family = Family("t_seconds", Kind.HISTOGRAM, "", samples)
    assert distribution([family], "t_seconds") == Distribution((1.0, 2.0, INF), (2.0, 3.0, 7.0), 13.0, 7.0)
