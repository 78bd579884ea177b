from __future__ import annotations

import pytest

from vllm_observe.sim.tally import Histogram, histogram


def test_a_value_at_a_bound_is_below_it():
    one = Histogram((1.0, 2.0, 5.0))
    for value, times in ((1.0, 2), (1.5, 1), (5.0, 3), (6.0, 1)):
        one.observe(value, times)

    assert one.up_to((1.0, 5.0)) == [2, 6]
    assert one.up_to((1.0, 2.0, 5.0)) == [2, 3, 6]
    assert (one.count, one.sum) == (7, 24.5)


@pytest.mark.parametrize(
    ("key", "bounds"), [("ttft", (10.0, 2560.0)), ("itl", (2.5, 80.0)), ("e2e", (60.0, 7680.0))]
)
def test_a_histogram_has_the_bounds_of_old_releases_and_of_new_ones(key, bounds):
    one = histogram(key)
    one.observe(5000.0)

    assert one.up_to(bounds) == [0, int(bounds[1] > 5000)]


def test_bounds_of_tokens_go_up_to_the_longest_request():
    one = histogram("request_prompt_tokens", 250)
    one.observe(199)

    assert one.up_to((100.0, 200.0)) == [0, 1]
    with pytest.raises(KeyError):
        one.up_to((500.0,))
