from __future__ import annotations

from statistics import median_high

import pytest

from support.joins import edge
from vllm_observe.join.attempts import Attempt
from vllm_observe.join.merge import merge
from vllm_observe.join.usual import UsualRequests
from vllm_observe.model import Outcome
from vllm_observe.thresholds import USUAL_MIN_REQUESTS


def request(took=4.0, **values):
    return merge("abc", 1, Attempt([edge(took=took, **values)]))


def test_nothing_is_usual_before_enough_requests_were_seen():
    usual = UsualRequests()
    for _ in range(USUAL_MIN_REQUESTS - 1):
        usual.observe(request())
    assert usual.of(request()) is None
    usual.observe(request())
    assert usual.of(request()).duration_s == 4.0


def test_usual_is_the_median_of_the_latest():
    usual = UsualRequests(remember=25)
    took = [float(i * 7 % 40 + 1) for i in range(60)]
    for seconds in took:
        usual.observe(request(seconds, ttft_s=1.0, completion_tokens=int(seconds)))
    assert usual.of(request()).duration_s == median_high(took[-25:])
    assert usual.of(request()).completion_tokens == median_high(took[-25:])


def test_one_huge_request_does_not_move_what_is_usual():
    usual = UsualRequests()
    for seconds in [2.0] * 30 + [600.0]:
        usual.observe(request(seconds))
    assert usual.of(request()).duration_s == 2.0


def test_a_slow_hour_does_not_become_usual_while_it_lasts():
    usual = UsualRequests(remember=100)
    for seconds in [2.0] * 800 + [10.0] * 400:
        usual.observe(request(seconds))
    assert usual.of(request()).duration_s == 2.0
    for _ in range(600):
        usual.observe(request(10.0))
    assert usual.of(request()).duration_s == 10.0


def test_what_has_become_faster_is_usual_soon():
    usual = UsualRequests(remember=100)
    for seconds in [10.0] * 800 + [2.0] * 60:
        usual.observe(request(seconds))
    assert usual.of(request()).duration_s == 2.0


def test_each_profile_and_model_has_its_own():
    usual = UsualRequests()
    for _ in range(USUAL_MIN_REQUESTS):
        usual.observe(request(1.0, profile="assistant"))
        usual.observe(request(9.0, profile="coder"))
    assert usual.of(request(profile="assistant")).duration_s == 1.0
    assert usual.of(request(profile="coder")).duration_s == 9.0
    assert usual.of(request(profile="coder", model="other")) is None


@pytest.mark.parametrize("values", [{"outcome": Outcome.ERROR}, {"outcome": Outcome.TIMEOUT}, {"took": None}])
def test_what_failed_or_has_no_duration_is_not_learned_from(values):
    usual = UsualRequests()
    for _ in range(USUAL_MIN_REQUESTS):
        usual.observe(request(**values))
    assert usual.of(request()) is None


def test_a_flood_of_profiles_fills_no_memory_and_keeps_the_known():
    usual = UsualRequests(limit=3)
    for i in range(50):
        usual.observe(request(profile=f"p{i}"))
    for _ in range(USUAL_MIN_REQUESTS):
        usual.observe(request(profile="p0"))
    assert usual.of(request(profile="p0")) is not None
    assert len(usual._known) == 3
