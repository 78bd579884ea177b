from __future__ import annotations

import math
from random import Random
from statistics import median, quantiles

import pytest

from vllm_observe.sim.scenarios.workloads import PROFILES, Rate, Spread


def test_a_spread_has_its_median_and_its_width():
    """Of a log-normal, 16 and 84 percent lie below exp(-sigma) and exp(sigma) times the median."""
    chance = Random(1)
    drawn = [Spread(median=100.0, sigma=0.7).draw(chance) for _ in range(20_000)]
    percents = quantiles(drawn, n=100)

    assert median(drawn) == pytest.approx(100.0, rel=0.03)
    assert percents[15] == pytest.approx(100 * math.exp(-0.994 * 0.7), rel=0.04)
    assert percents[83] == pytest.approx(100 * math.exp(0.994 * 0.7), rel=0.04)


def test_a_spread_keeps_within_its_bounds_and_a_whole_one_is_at_least_1():
    chance = Random(2)
    wide = Spread(median=10.0, sigma=3.0, least=2.0, most=40.0)

    drawn = [wide.draw(chance) for _ in range(1000)]
    assert (min(drawn), max(drawn)) == (2.0, 40.0)
    assert Spread(median=0.01).whole(chance) == 1


def test_a_rate_swings_about_its_mean_with_its_peak_at_noon():
    rate = Rate(per_s=2.0, swing=0.5)

    assert rate.at(43200.0) == rate.most == 3.0
    assert rate.at(0.0) == pytest.approx(1.0)
    assert sum(rate.at(hour * 3600.0) for hour in range(24)) / 24 == pytest.approx(2.0)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_a_profile_s_longest_turn_fits_into_its_answers(profile):
    assert profile.output.most <= profile.max_tokens
