from __future__ import annotations

import pytest

from support.joins import arrival, edge, engine
from vllm_observe.join.attempts import Attempt
from vllm_observe.join.merge import merge
from vllm_observe.join.targets import targets_met, tpot_s, ttft_s
from vllm_observe.model import Outcome
from vllm_observe.thresholds import Targets

CHAT = Targets(ttft=2.5, tpot=0.1)
JOB = Targets(ttft=30.0, tpot=1.0, e2e=60.0)


def request(*edges, engines=()):
    return merge("abc", 1, Attempt(list(edges), list(engines)))


def test_a_stream_has_the_latencies_that_its_user_saw():
    streamed = request(edge(took=4, ttft_s=1.0, completion_tokens=31))
    assert (ttft_s(streamed), tpot_s(streamed)) == (1.0, pytest.approx(0.1))


def test_an_answer_that_came_all_at_once_has_no_first_token():
    at_once = request(edge(took=4, ttft_s=4.0, stream=False, completion_tokens=31))
    assert (ttft_s(at_once), tpot_s(at_once)) == (None, None)
    assert targets_met(at_once, CHAT) == {}


def test_one_token_has_no_pace():
    assert tpot_s(request(edge(took=4, ttft_s=1.0, completion_tokens=1))) is None
    assert tpot_s(request(edge(took=4, ttft_s=1.0, completion_tokens=0))) is None


def test_several_answers_are_paced_by_the_slowest():
    parts = [engine(decode_s=1.0, completion_tokens=11), engine("1_chatcmpl-abc", tpot_s=0.3)]
    assert tpot_s(request(edge(took=4, ttft_s=1.0, completion_tokens=22), engines=parts)) == 0.3


@pytest.mark.parametrize("timed", [[engine(took=3.0, tpot_s=0.01)], []])
def test_a_line_of_vllms_log_does_not_make_one_stream_two(timed):
    lines = [arrival(), arrival("abc", at=0.1)]
    seen = request(edge(took=4, ttft_s=1.0, completion_tokens=31), engines=[*timed, *lines[: 2 - len(timed)]])
    assert tpot_s(seen) == pytest.approx(0.1)


def test_a_part_that_made_one_token_has_no_pace_either():
    assert tpot_s(request(engines=[engine(decode_s=0.0, completion_tokens=1)])) is None
    assert tpot_s(request(engines=[engine(decode_s=1.0, completion_tokens=11)])) == 0.1


def test_a_target_is_judged_only_by_what_is_known():
    assert targets_met(request(edge(took=4, ttft_s=2.5)), CHAT) == {"ttft": True}
    assert targets_met(request(edge(took=70, ttft_s=31.0, completion_tokens=40)), JOB) == {
        "ttft": False,
        "tpot": True,  # 39 s for 39 tokens
        "e2e": False,
    }


def test_a_timeout_missed_its_targets():
    assert targets_met(request(edge(took=10, outcome=Outcome.TIMEOUT)), CHAT) == {"ttft": False}
    assert targets_met(request(edge(took=10, ttft_s=1.0, outcome=Outcome.TIMEOUT)), JOB) == {
        "ttft": True,
        "e2e": False,
    }


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.ABORT, Outcome.REJECTED])
def test_a_failed_request_says_nothing_of_speed(outcome):
    assert targets_met(request(edge(took=0.01, ttft_s=0.01, outcome=outcome)), JOB) == {}
