from __future__ import annotations

import pytest

from support.joins import KEY, arrival, edge, engine, sample
from vllm_observe.join.attempts import Attempt
from vllm_observe.join.coverage import Coverage
from vllm_observe.join.merge import merge
from vllm_observe.model import Outcome

PERIOD = 600


def request(prompt, completion, end=4.0):
    record = edge(start=end - 4.0, prompt_tokens=prompt, completion_tokens=completion)
    return merge("abc", 1, Attempt([record]))


def counted(prompt, generation, key=KEY, at=0.0):
    return sample(at, key=key, prompt_tokens=prompt, generation_tokens=generation)


def test_tokens_that_a_request_claims_later_are_accounted_for():
    coverage = Coverage(period=PERIOD)
    coverage.observe([counted(1000, 5000)], 0)
    coverage.observe([counted(1100, 5050)], 10)
    coverage.claim(request(100, 50))
    coverage.observe([counted(1100, 5050)], PERIOD)
    coverage.observe([counted(1100, 5050)], 2 * PERIOD)
    assert coverage.unattributed == {"prompt": 0, "completion": 0}


def test_tokens_that_nobody_claims_are_told_after_two_periods():
    coverage = Coverage(period=PERIOD)
    coverage.observe([counted(0, 0)], 0)
    coverage.observe([counted(100, 50)], 10)
    coverage.observe([counted(100, 50)], PERIOD)
    coverage.observe([counted(100, 50)], 2 * PERIOD)
    assert coverage.unattributed == {"prompt": 100, "completion": 50}


def test_the_tokens_under_way_are_no_gap_however_long_the_server_is_busy():
    coverage = Coverage(period=PERIOD)
    generated = 0
    for now in range(0, 20 * PERIOD, 10):
        coverage.observe([counted(0, generated)], now)
        generated += 100
        if now % 100 == 90:
            coverage.claim(request(0, 1000))
    assert coverage.unattributed["completion"] <= 1000


def test_it_never_falls_and_is_never_negative():
    coverage = Coverage(period=PERIOD)
    coverage.observe([counted(0, 0)], 0)
    coverage.claim(request(500, 500))
    seen = []
    for period in range(1, 6):
        coverage.observe([counted(200 * period, 200 * period)], PERIOD * period)
        seen.append(coverage.unattributed["prompt"])
        coverage.claim(request(50, 50))
    assert seen == sorted(seen)
    assert seen[0] == 0


def test_a_restart_makes_no_tokens():
    coverage = Coverage(period=PERIOD)
    for period, value in enumerate([1000, 1000, 5, 5, 5]):
        coverage.observe([counted(value, value)], PERIOD * period)
    assert coverage.unattributed == {"prompt": 0, "completion": 0}


def test_a_backlog_of_requests_that_ended_before_the_first_sample_claims_nothing():
    coverage = Coverage(period=PERIOD)
    coverage.claim(request(10**6, 10**6, end=-50))  # read before the first scrape
    coverage.observe([counted(5000, 5000)], 0)
    coverage.claim(request(10**6, 10**6, end=-50))
    for period in (0.1, 1, 2):
        coverage.observe([counted(5100, 5050)], PERIOD * period)
    assert coverage.unattributed == {"prompt": 100, "completion": 50}


@pytest.mark.parametrize("after", [(3, 3), (3, 2000), (2000, 3)])
def test_tokens_that_a_restart_lost_hide_no_gap_after_it(after):
    coverage = Coverage(period=PERIOD)
    coverage.observe([counted(1000, 1000)], 0)
    coverage.observe([counted(*after, at=100)], 100)
    coverage.claim(request(700, 700, end=90))  # counted by the process that is gone, after its last scrape
    grown = (after[0] + 100, after[1] + 50)
    for period in (1, 2, 3):
        coverage.observe([counted(*grown, at=PERIOD * period)], PERIOD * period)
    assert coverage.unattributed == {"prompt": 100, "completion": 50}


def test_gaps_before_and_after_a_restart_add_up():
    coverage = Coverage(period=PERIOD)
    for period, value in enumerate([0, 100, 100, 100, 5, 35, 35, 35]):
        coverage.observe([counted(value, 0, at=PERIOD * period)], PERIOD * period)
    assert coverage.unattributed["prompt"] == 130


def test_each_engine_counts_for_itself():
    other = KEY._replace(engine="1")
    coverage = Coverage(period=PERIOD)
    for period, value in enumerate([0, 100, 100, 100]):
        coverage.observe([counted(value, 0), counted(value, 0, key=other)], PERIOD * period)
    assert coverage.unattributed["prompt"] == 200


def test_what_vllm_counted_again_for_each_answer_is_accounted_for():
    """Two answers to 100 tokens: vLLM counts the prompt twice, and the client is told of it once."""
    record = edge(prompt_tokens=100, completion_tokens=50)
    parts = [
        engine("0_chatcmpl-abc", prompt_tokens=100, completion_tokens=20),
        engine("1_chatcmpl-abc", prompt_tokens=100, completion_tokens=30),
    ]
    line = arrival("chatcmpl-abc", prompt_tokens=100)  # repeats what the timed records say
    coverage = Coverage(period=PERIOD)
    coverage.observe([counted(0, 0)], 0)
    coverage.observe([counted(200, 50)], 10)
    coverage.claim(merge("abc", 1, Attempt([record], [*parts, line])))
    for period in (1, 2):
        coverage.observe([counted(200, 50)], PERIOD * period)
    assert coverage.unattributed == {"prompt": 0, "completion": 0}


def test_three_ways_out_add_up_by_hand():
    """Of 300 and 90 tokens that vLLM counted, an answer and two aborts tell of 260 and 70."""
    answered = merge("a", 1, Attempt([edge("a", prompt_tokens=120, completion_tokens=40)]))
    left = edge("b", outcome=Outcome.ABORT, prompt_tokens=80, completion_tokens=20)
    behind_200 = engine("chatcmpl-c", finish_reason="abort", prompt_tokens=60, completion_tokens=10)
    closed = [
        answered,
        merge("b", 1, Attempt([left])),
        merge("c", 1, Attempt([edge("c", status=200)], [behind_200])),
    ]
    assert [request.outcome for request in closed] == [Outcome.OK, Outcome.ABORT, Outcome.ABORT]
    coverage = Coverage(period=PERIOD)
    coverage.observe([counted(0, 0)], 0)
    coverage.observe([counted(300, 90)], 10)
    for request in closed:
        coverage.claim(request)
    for period in (1, 2):
        coverage.observe([counted(300, 90)], PERIOD * period)
    assert coverage.unattributed == {"prompt": 300 - 260, "completion": 90 - 70}
