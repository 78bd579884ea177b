from __future__ import annotations

import math

import msgspec
import pytest

from support.joins import arrival, edge, engine
from vllm_observe.join.attempts import Attempt
from vllm_observe.join.merge import merge
from vllm_observe.model import Outcome, Parts, Phases


def request(*edges, engines=()):
    return merge("abc", 1, Attempt(list(edges), list(engines)))


# --- Outcome


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        ([Outcome.OK, Outcome.ABORT], Outcome.ABORT),
        ([Outcome.TIMEOUT, Outcome.ABORT], Outcome.TIMEOUT),  # the app gave up; further in that is an abort
        ([Outcome.REJECTED, Outcome.ABORT], Outcome.REJECTED),
        ([Outcome.OK, Outcome.ERROR], Outcome.ERROR),  # a proxy's 200 around an error body
        ([Outcome.OK, Outcome.OK], Outcome.OK),
    ],
)
def test_the_worst_of_the_nested_records_is_the_outcome(outcomes, worst):
    for order in (outcomes, outcomes[::-1]):
        assert request(*(edge(outcome=outcome) for outcome in order)).outcome is worst


@pytest.mark.parametrize(
    ("finish_reason", "outcome"),
    [
        ("stop", Outcome.OK),
        ("length", Outcome.OK),
        ("repetition", Outcome.OK),
        ("abort", Outcome.ABORT),
        ("error", Outcome.ERROR),
    ],
)
def test_an_engines_bad_end_is_not_ok_whatever_the_status(finish_reason, outcome):
    assert request(edge(status=200), engines=[engine(finish_reason=finish_reason)]).outcome is outcome
    assert request(engines=[engine(finish_reason=finish_reason)]).outcome is outcome


def test_what_a_proxy_tried_again_within_the_attempt_does_not_count():
    tries = [edge(start=0.1, took=1, outcome=Outcome.ERROR), edge(start=2, took=1.9)]
    parts = [engine(start=0.2, took=0.5, finish_reason="abort"), engine(start=2.1, took=1.5)]
    assert request(edge(took=4), *tries, engines=parts).outcome is Outcome.OK


# --- Phases


def test_an_arrival_has_no_phases_and_hides_none():
    streamed = edge(took=4, stream=True, ttft_s=1.0)
    assert request(streamed, engines=[arrival()]).phases == Phases(decode=3.0)
    part = engine(start=0.5, took=3.0, queue_s=1.0, prefill_s=0.5, decode_s=1.5)
    told = request(edge(took=4), engines=[arrival(), part]).phases
    assert told == Phases(outside=1.0, queue=1.0, prefill=0.5, decode=1.5)


@pytest.mark.parametrize("at", [0.0, 3.25, 4.5])  # whole seconds cut off, and a log that is written later
def test_a_line_of_vllms_log_neither_hides_the_phases_of_a_timed_record_nor_counts_its_tokens_again(at):
    timed = engine(start=0.5, took=3.0, queue_s=1.0, prefill_s=0.5, decode_s=1.5, completion_tokens=7)
    line = engine(start=at, took=None, completion_tokens=7)
    made = request(edge(took=4), engines=[timed, line])
    assert made.phases == Phases(outside=1.0, queue=1.0, prefill=0.5, decode=1.5)
    assert made.completion_tokens == 7
    assert request(engines=[line]).completion_tokens == 7


def test_a_leg_whose_times_cannot_be_true_leaves_the_phases_unknown():
    prefill = engine(start=1.0 - 9e5, took=9e5, queue_s=9e5, prefill_s=9e5, decode_s=9e5)
    decode = engine(start=1.0, took=2.0, queue_s=0.5, prefill_s=0.5, decode_s=1.0)
    assert request(edge(took=4), engines=[prefill, decode]).phases.queue is None


def test_the_phases_add_up_to_the_duration():
    part = engine(start=0.1, took=3.9, queue_s=1.0, prefill_s=0.5, decode_s=2.0)
    phases = request(edge(took=4), engines=[part]).phases
    # The engine's own latency holds 0.4 s of tokenizing and detokenizing: outside of the engine core.
    assert (phases.outside, phases.queue, phases.prefill, phases.decode) == (0.5, 1.0, 0.5, 2.0)


def test_outside_is_told_by_the_latency_where_a_phase_is_not_known():
    phases = request(edge(took=4), engines=[engine(took=3.0, queue_s=1.0)]).phases
    assert phases == Phases(outside=1.0, queue=1.0)


def test_an_engine_that_seems_longer_than_the_user_waited_leaves_nothing_outside():
    part = engine(took=4.2, queue_s=1.0, prefill_s=1.0, decode_s=2.2)
    assert request(edge(took=4), engines=[part]).phases.outside == 0.0


def test_answers_made_at_the_same_time_count_once():
    parts = [
        engine("0_chatcmpl-abc", took=2, queue_s=0.5, prefill_s=0.5, decode_s=1.0),
        engine("1_chatcmpl-abc", took=3, queue_s=0.5, prefill_s=0.5, decode_s=2.0),
    ]
    assert request(edge(took=4), engines=parts).phases == Phases(
        outside=1.0, queue=0.5, prefill=0.5, decode=2.0
    )


def test_without_an_edge_record_what_was_outside_is_not_known():
    assert request(engines=[engine(took=3, queue_s=1, prefill_s=1, decode_s=1)]).phases.outside is None


def test_without_an_engine_record_only_a_stream_tells_its_decoding():
    assert request(edge(took=4, ttft_s=1.5, stream=True)).phases == Phases(decode=2.5)
    assert request(edge(took=4, ttft_s=4.0, stream=False)).phases == Phases()
    assert request(edge(took=4)).phases == Phases()


# --- Times that cannot be true


@pytest.mark.parametrize("wrong", [-1.0, 86_400.0, math.inf, math.nan, 5.5])
def test_an_engine_time_that_cannot_be_true_is_not_known(wrong):
    merged = request(edge(took=4), engines=[engine(took=3.9, queue_s=wrong, prefill_s=1.0, decode_s=2.0)])
    assert merged.engines[0].queue_s is None
    assert merged.engines[0].prefill_s == 1.0
    assert merged.phases == Phases(outside=pytest.approx(0.1), prefill=1.0, decode=2.0)


def test_a_phase_longer_than_its_latency_is_not_known_without_an_edge_record_either():
    # A release takes an unset milestone for 0 and reports the host's uptime as the time in the queue.
    merged = request(engines=[engine(took=3.0, queue_s=86_400.0)])
    assert merged.engines[0].queue_s is None
    assert merged.duration_s == 3.0


def test_an_engine_that_went_on_after_its_client_had_left_is_believed():
    part = engine(took=9.0, queue_s=6.0, finish_reason="abort")
    assert request(edge(took=4, outcome=Outcome.ABORT), engines=[part]).engines == (part,)


@pytest.mark.parametrize("wrong", [-0.5, 5.5, 86_400.0, math.inf, math.nan])
def test_a_first_token_that_cannot_be_true_is_not_known(wrong):
    merged = request(edge(took=4, ttft_s=wrong, prompt_tokens=7, stream=True))
    assert (merged.ttft_s, merged.duration_s, merged.prompt_tokens) == (None, 4.0, 7)
    assert merged.phases == Phases()


def test_a_first_token_may_come_after_the_end_by_rounding():
    assert request(edge(took=1, ttft_s=1.2)).ttft_s == 1.2


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan])
def test_a_duration_that_cannot_be_true_bounds_nothing(wrong):
    merged = request(
        msgspec.structs.replace(edge(), duration_s=wrong), engines=[engine(took=3.0, queue_s=1.0)]
    )
    assert (merged.edges[0].duration_s, merged.duration_s, merged.engines[0].queue_s) == (None, 3.0, 1.0)


def test_believable_records_are_passed_on_as_they_are():
    part = engine(took=3.9, queue_s=1.0, prefill_s=0.5, decode_s=2.0)
    seen = edge(took=4, ttft_s=1.5)
    merged = request(seen, engines=[part])
    assert merged.engines[0] is part
    assert merged.edges[0] is seen


@pytest.mark.parametrize(
    ("edges", "engines", "parts"), [(1, 1, Parts.BOTH), (1, 0, Parts.EDGE), (0, 1, Parts.ENGINE)]
)
def test_the_sides_that_were_seen_are_told(edges, engines, parts):
    assert request(*[edge()] * edges, engines=[engine()] * engines).parts is parts
