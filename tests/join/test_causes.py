from __future__ import annotations

import pytest

from support.joins import KEY, Samples, edge, engine, sample
from vllm_observe.join.attempts import Attempt
from vllm_observe.join.causes import Classifier
from vllm_observe.join.merge import merge
from vllm_observe.join.surroundings import surroundings
from vllm_observe.join.usual import Usual
from vllm_observe.model import Cause, EngineState, Limits, Outcome
from vllm_observe.thresholds import Targets

CHAT = Targets(ttft=2.5, tpot=0.1)
EIGHT = Limits(max_num_seqs=8)
USUAL = Usual(duration_s=2.0, completion_tokens=100, tpot_s=0.02)


def classify(*edges, engines=(), samples=(), limits=EIGHT, usual=None, targets=CHAT, down=False):
    request = merge("abc", 1, Attempt(list(edges), list(engines)))
    classifier = Classifier(
        targets=targets, limits_for=lambda _: limits, usual=lambda _: usual, engine_down=lambda _: down
    )
    return classifier(request, surroundings(Samples(*samples), request))


def cause(*edges, **context):
    evidence = classify(*edges, **context)
    return evidence and evidence.cause


def crowd(at, **values):
    """Eight of eight slots taken and sixteen waiting, unless told otherwise."""
    return sample(at, **{"running": 8, "waiting": 16, "kv_usage": 0.5, **values})


def quiet(at, running=2.0):
    return sample(at, running=running, waiting=0, kv_usage=0.2)


# --- Neither slow nor failed


def test_a_request_within_its_targets_has_no_cause():
    assert classify(edge(took=4, ttft_s=2.5, completion_tokens=31)) is None
    assert classify(edge(took=4, ttft_s=1.0, completion_tokens=31), samples=[crowd(-1)]) is None


def test_a_request_of_which_little_is_known_is_not_called_slow():
    assert classify(edge(took=500)) is None
    assert classify(edge(took=None)) is None


def test_three_times_next_to_nothing_is_not_slow():
    assert classify(edge(took=0.9), usual=Usual(duration_s=0.005)) is None


# --- Failed


@pytest.mark.parametrize(
    ("record", "expected", "text"),
    [
        (
            {"outcome": Outcome.ABORT},
            Cause.CLIENT_DISCONNECTED,
            "the client left after 4.0 s; before any token",
        ),
        (
            {"outcome": Outcome.ABORT, "ttft_s": 0.5, "status": 200},
            Cause.CLIENT_DISCONNECTED,
            "the client left after 4.0 s; its first token came after 500 ms",
        ),
        ({"outcome": Outcome.REJECTED, "status": 429}, Cause.REJECTED, "refused with 429 after 4.0 s"),
        ({"outcome": Outcome.ERROR, "status": 404}, Cause.CLIENT_ERROR, "answered with 404 after 4.0 s"),
        ({"outcome": Outcome.ERROR, "status": 502}, Cause.SERVER_ERROR, "answered with 502 after 4.0 s"),
        (
            {"outcome": Outcome.ERROR, "status": 200},
            Cause.ENGINE_ERROR,
            "answered with 200 after 4.0 s, with an error instead of tokens",
        ),
        ({"outcome": Outcome.ERROR}, Cause.SERVER_ERROR, "failed without an HTTP status after 4.0 s"),
        (
            {"outcome": Outcome.TIMEOUT, "took": None},
            Cause.UNKNOWN,
            "it timed out; after how long is not known",
        ),
    ],
)
def test_a_failure_is_told_by_how_it_was_answered(record, expected, text):
    evidence = classify(edge(**record))
    assert (evidence.cause, evidence.text) == (expected, text)


def test_a_server_error_of_a_dead_engine_is_the_engines():
    assert cause(edge(status=500, outcome=Outcome.ERROR), down=True) is Cause.ENGINE_ERROR
    assert cause(edge(status=400, outcome=Outcome.ERROR), down=True) is Cause.CLIENT_ERROR


@pytest.mark.parametrize("error", ["EngineDeadError", "vllm.v1.engine.exceptions.EngineGenerateError"])
def test_an_error_that_names_the_engine_is_the_engines(error):
    evidence = classify(edge(status=500, outcome=Outcome.ERROR, error=error))
    assert evidence.cause is Cause.ENGINE_ERROR
    assert evidence.text == f"answered with 500 after 4.0 s, because of {error}"
    assert cause(edge(status=500, outcome=Outcome.ERROR, error="SearchEngineError")) is Cause.SERVER_ERROR


def test_a_connection_that_broke_at_a_dead_engine_is_the_engines():
    assert cause(edge(outcome=Outcome.ERROR, error="ConnectionError"), down=True) is Cause.ENGINE_ERROR


def test_an_engine_that_ends_in_an_error_is_to_blame():
    assert cause(edge(status=200), engines=[engine(finish_reason="error")]) is Cause.ENGINE_ERROR
    # vLLM's log calls a request that it refused failed, too.
    refused = edge(status=400, outcome=Outcome.ERROR)
    assert cause(refused, engines=[engine(finish_reason="error")]) is Cause.CLIENT_ERROR


def test_an_engine_that_aborts_what_its_client_waited_for_is_to_blame():
    assert cause(edge(status=200), engines=[engine(finish_reason="abort")]) is Cause.ENGINE_ERROR
    left = edge(outcome=Outcome.ABORT)
    assert cause(left, engines=[engine(finish_reason="abort")]) is Cause.CLIENT_DISCONNECTED
    assert cause(engines=[engine(finish_reason="abort")]) is Cause.CLIENT_DISCONNECTED


def test_the_error_behind_a_proxys_200_is_told():
    inner = edge(start=0.1, took=3.8, status=404, outcome=Outcome.ERROR)
    assert classify(edge(status=200), inner).text == "answered with 404 after 4.0 s"


def test_a_failure_has_its_cause_however_slow_it_was():
    assert (
        cause(edge(status=500, outcome=Outcome.ERROR, ttft_s=3.9), samples=[crowd(-1)]) is Cause.SERVER_ERROR
    )


# --- Slow, with an engine record


def phases(queue=0.0, prefill=0.1, decode=0.5, **values):
    """An engine record whose latency is the sum of its phases."""
    took = queue + prefill + decode
    values.setdefault("completion_tokens", 100)
    return engine(took=took, queue_s=queue, prefill_s=prefill, decode_s=decode, **values)


def test_a_request_that_waited_for_a_slot_says_so_in_numbers():
    evidence = classify(
        edge(took=4.0, ttft_s=3.3), engines=[phases(queue=3.1, prefill=0.2)], samples=[crowd(-1), crowd(2)]
    )
    assert evidence.cause is Cause.QUEUE_SLOTS
    assert evidence.text == "waited 3.1 s of 4.0 s; 8 of 8 slots were taken; 16 were waiting"


def test_a_request_that_waited_for_the_kv_cache_says_so_in_numbers():
    full = sample(1, running=3, waiting=12, kv_usage=0.99)
    evidence = classify(edge(took=4.0, ttft_s=3.3), engines=[phases(queue=3.1)], samples=[full])
    assert evidence.cause is Cause.QUEUE_KV
    assert (
        evidence.text
        == "waited 3.1 s of 4.0 s; the KV cache was 99% full; 3 of 8 slots were taken; 12 were waiting"
    )


def test_requests_thrown_out_meanwhile_mean_that_blocks_were_wanting():
    samples = [crowd(-1, kv_usage=0.9, preemptions=5), crowd(2, kv_usage=0.9, preemptions=9)]
    assert cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples) is Cause.QUEUE_KV


def test_a_queue_is_to_blame_from_three_tenths_of_the_time_on():
    samples = [crowd(-1), crowd(0.5)]
    slow = {"samples": samples, "targets": Targets(ttft=10, tpot=1, e2e=5)}
    assert cause(edge(took=10), engines=[phases(queue=3.0, decode=6.9)], **slow) is Cause.QUEUE_SLOTS
    assert cause(edge(took=10), engines=[phases(queue=2.9, decode=7.0)], **slow) is Cause.DECODE_LONG


def test_a_wait_that_is_certain_needs_no_sample_that_shows_others_waiting():
    samples = [sample(1, running=8, waiting=0)]
    assert cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples) is Cause.QUEUE_SLOTS


def test_a_wait_that_is_certain_at_a_full_cache_was_for_the_cache():
    samples = [sample(1, running=3, waiting=0, kv_usage=0.97)]
    evidence = classify(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples)
    assert evidence.cause is Cause.QUEUE_KV
    assert "the KV cache was 97% full" in evidence.text
    roomy = [sample(1, running=3, waiting=0, kv_usage=0.1)]
    assert cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=roomy) is Cause.UNKNOWN


def test_an_engine_that_tells_too_little_leaves_the_cause_unknown():
    part = engine(took=3.9, queue_s=0.1)
    evidence = classify(edge(took=4, ttft_s=3.5), engines=[part], samples=[crowd(1)])
    assert (evidence.cause, evidence.text) == (
        Cause.UNKNOWN,
        "the first token took 3.5 s, over the target of 2.5 s; the engine's record tells too little",
    )


def test_what_was_waited_for_is_unknown_without_samples():
    evidence = classify(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)])
    assert (evidence.cause, evidence.text) == (
        Cause.UNKNOWN,
        "waited 3.1 s of 4.0 s; no engine sample tells why",
    )


@pytest.mark.parametrize(
    ("state", "named", "numbers"),
    [
        (
            EngineState(running=1, waiting=6, waiting_capacity=0, waiting_deferred=6, kv_usage=0.1),
            Cause.QUEUE_DEFERRED,
            "6 were held back by a KV transfer, a LoRA slot or a grammar; 1 of 8 slots was taken; 6 were waiting",
        ),
        (
            EngineState(running=8, waiting=16, kv_usage=0.5),
            Cause.QUEUE_SLOTS,
            "8 of 8 slots were taken; 16 were waiting",
        ),
        (
            EngineState(running=1, waiting=0, kv_usage=0.1),
            Cause.UNKNOWN,
            "2 of 8 slots were taken; 0 were waiting",
        ),
    ],
)
def test_a_wait_between_two_samples_is_told_by_what_the_engine_said_as_the_request_ended(
    state, named, numbers
):
    part = phases(queue=0.6, decode=0.1, state=state)
    evidence = classify(
        edge(took=0.8, ttft_s=0.7), engines=[part], samples=[quiet(-0.2)], targets=Targets(0.5, 1)
    )
    assert (evidence.cause, evidence.text) == (named, f"waited 600 ms of 800 ms; {numbers}")


def test_what_a_sample_says_of_a_wait_is_believed_before_what_was_said_at_the_requests_end():
    part = phases(queue=3.1, state=EngineState(running=1, waiting=3, waiting_capacity=0, waiting_deferred=3))
    assert cause(edge(took=4, ttft_s=3.3), engines=[part], samples=[crowd(1)]) is Cause.QUEUE_SLOTS


def test_without_a_known_limit_an_engine_that_never_runs_more_is_at_it():
    limits = Limits()
    same = [crowd(-1), crowd(1), crowd(2)]
    assert (
        cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=same, limits=limits)
        is Cause.QUEUE_SLOTS
    )
    varying = [crowd(-1), crowd(1, running=6), crowd(2)]
    assert (
        cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=varying, limits=limits)
        is Cause.UNKNOWN
    )


def test_seven_of_eight_while_others_wait_is_a_full_batch_of_which_one_had_just_ended():
    samples = [crowd(-1, running=7), crowd(1, running=7), crowd(2, running=5)]
    evidence = classify(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples)
    assert evidence.cause is Cause.QUEUE_SLOTS
    assert evidence.text == "waited 3.1 s of 4.0 s; 7 of 8 slots were taken; 16 were waiting"
    assert cause(edge(took=4, ttft_s=3.3), samples=samples) is Cause.QUEUE_SLOTS


@pytest.mark.parametrize(
    "samples",
    [
        [crowd(-1, running=5), crowd(1, running=5), crowd(2, running=7)],  # a full batch now and then
        [crowd(1, running=7, kv_usage=0.92)],  # no blocks either
    ],
)
def test_a_batch_that_is_mostly_not_full_is_not_what_is_waited_for(samples):
    assert cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples) is not (
        Cause.QUEUE_SLOTS
    )


BUSY = Limits(max_num_seqs=8, max_num_batched_tokens=2048)


def test_what_waits_for_the_prompts_of_others_says_so_in_numbers():
    samples = [
        sample(at, running=4, waiting=6, kv_usage=0.2, steps=10 * at, step_tokens=20_480 * at)
        for at in (1.0, 2.0, 3.0)
    ]
    late = edge(took=4, ttft_s=3.3, prompt_tokens=90)
    evidence = classify(late, engines=[phases(queue=3.1)], samples=samples, limits=BUSY)
    assert evidence.cause is Cause.QUEUE_BUDGET
    assert evidence.text == (
        "waited 3.1 s of 4.0 s; a step had 2048 of 2048 tokens on average; "
        "4 of 8 slots were taken; 6 were waiting"
    )
    assert cause(late, samples=samples, limits=BUSY) is Cause.QUEUE_BUDGET
    # Whose own prompt fills the steps does not wait for others.
    long = edge(took=4, ttft_s=3.3, prompt_tokens=30_000)
    assert cause(long, samples=samples, limits=BUSY) is Cause.PREFILL_LONG


def test_what_waits_for_other_than_capacity_says_so():
    samples = [
        sample(at, running=1, waiting=2, waiting_capacity=0, waiting_deferred=2, kv_usage=0.1)
        for at in (1, 2)
    ]
    evidence = classify(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples)
    assert evidence.cause is Cause.QUEUE_DEFERRED
    assert "2 were held back by a KV transfer, a LoRA slot or a grammar" in evidence.text


def test_of_what_bound_in_turn_the_one_that_bound_most_often_is_named():
    samples = [crowd(0.5), crowd(1, running=3, kv_usage=0.99), crowd(2, running=3, kv_usage=0.98)]
    assert cause(edge(took=4, ttft_s=3.3), engines=[phases(queue=3.1)], samples=samples) is Cause.QUEUE_KV


def stuck(at, **values):
    return crowd(at, running=3, kv_usage=0.3, **{"generation_tokens": 70, "prompt_tokens": 9, **values})


def test_an_engine_that_stood_still_is_to_blame_for_what_waited_meanwhile():
    samples = [stuck(at) for at in (0, 5, 10, 15)]
    slow = edge(took=20.0, ttft_s=18.0)
    evidence = classify(slow, engines=[phases(queue=16.0, prefill=2.0, decode=2.0)], samples=samples)
    assert evidence.cause is Cause.ENGINE_ERROR
    assert evidence.text == "the engine made no token for 15.0 s of 20.0 s"
    assert cause(slow, samples=samples) is Cause.ENGINE_ERROR


@pytest.mark.parametrize(
    "samples",
    [
        [stuck(at, generation_tokens=at) for at in (0, 5, 10, 15)],
        [stuck(at, generation_tokens=None) for at in (0, 5, 10, 15)],
        [stuck(5), stuck(10)],  # a prompt of many tokens may take as long
        [sample(at, running=0, waiting=0, generation_tokens=7) for at in (0, 5, 10, 15)],
    ],
)
def test_an_engine_that_did_anything_or_had_nothing_to_do_did_not_stand_still(samples):
    assert cause(edge(took=20.0, ttft_s=18.0), samples=samples) is not Cause.ENGINE_ERROR


def test_a_pace_over_the_target_is_slow_however_usual_it_has_become():
    usual = Usual(duration_s=20.0, completion_tokens=50, tpot_s=0.2)
    part = phases(decode=80.0, completion_tokens=401)
    slow = edge(took=81, ttft_s=1.0, completion_tokens=401)
    assert cause(slow, engines=[part], usual=usual) is Cause.DECODE_SLOW


def test_a_long_uncached_prompt_is_told_with_its_tokens():
    part = phases(prefill=3.0, prompt_tokens=9000, cached_tokens=1000)
    evidence = classify(edge(took=4, ttft_s=3.2), engines=[part])
    assert evidence.cause is Cause.PREFILL_LONG
    assert evidence.text == "the prompt took 3.0 s of 4.0 s; no cache held 8000 of its 9000 tokens"


def test_a_cache_of_which_nothing_is_known_is_not_told_to_be_empty():
    evidence = classify(edge(took=4, ttft_s=3.2), engines=[phases(prefill=3.0, prompt_tokens=9000)])
    assert evidence.cause is Cause.PREFILL_LONG
    assert evidence.text == (
        "the prompt took 3.0 s of 4.0 s; how many of its 9000 prompt tokens a cache held is not known"
    )


def test_a_preempted_prompt_that_was_not_long_is_preempted():
    part = phases(prefill=3.0, prompt_tokens=500, preemptions=2)
    assert cause(edge(took=4, ttft_s=3.2), engines=[part]) is Cause.PREEMPTED


def test_slow_tokens_are_told_with_their_pace():
    evidence = classify(edge(took=20.5, ttft_s=0.5, completion_tokens=101), engines=[phases(decode=20.0)])
    assert (evidence.cause, evidence.text) == (Cause.DECODE_SLOW, "101 output tokens, one in 200 ms")


def test_slow_tokens_of_a_preempted_request_are_the_preemptions():
    part = phases(decode=20.0, preemptions=3)
    evidence = classify(edge(took=20.5, ttft_s=0.5, completion_tokens=101), engines=[part])
    assert evidence.cause is Cause.PREEMPTED
    assert evidence.text == "preempted 3 times; 101 output tokens, one in 200 ms"


def test_tokens_that_the_engine_made_fast_were_slowed_outside():
    part = phases(decode=2.0, completion_tokens=101)
    assert cause(edge(took=20.5, ttft_s=0.5, completion_tokens=101), engines=[part]) is Cause.OUTSIDE_ENGINE


def test_many_tokens_at_the_usual_pace_are_a_long_answer():
    part = phases(decode=40.0, completion_tokens=2000)
    evidence = classify(edge(took=41, ttft_s=1.0, completion_tokens=2000), engines=[part], usual=USUAL)
    assert (evidence.cause, evidence.text) == (Cause.DECODE_LONG, "2000 output tokens, one in 20 ms")


def test_as_many_tokens_as_usual_at_a_slower_pace_are_slow_ones():
    part = phases(decode=8.0, completion_tokens=110)
    slow = edge(took=9, ttft_s=1.0, completion_tokens=110)
    assert cause(slow, engines=[part], usual=USUAL) is Cause.DECODE_SLOW
    part = phases(decode=8.0, completion_tokens=110, preemptions=1)
    assert cause(slow, engines=[part], usual=USUAL) is Cause.PREEMPTED


def test_time_that_no_engine_accounts_for_was_outside():
    evidence = classify(edge(took=4, ttft_s=3.5), engines=[phases(decode=0.3)], samples=[crowd(1)])
    assert (evidence.cause, evidence.text) == (
        Cause.OUTSIDE_ENGINE,
        "3.4 s of 4.0 s passed outside the engine",
    )


def test_a_timeout_is_explained_as_what_is_slow():
    late = edge(took=30, outcome=Outcome.TIMEOUT)
    assert cause(late, samples=[crowd(-1), crowd(20)]) is Cause.QUEUE_SLOTS
    assert (
        cause(late, engines=[phases(queue=29, finish_reason="abort")], samples=[crowd(9)])
        is Cause.QUEUE_SLOTS
    )


# --- Slow, without an engine record


def test_a_late_first_token_at_a_crowded_engine_is_the_queue():
    late = edge(took=4.0, ttft_s=3.3)
    evidence = classify(late, samples=[crowd(-1)])
    assert evidence.cause is Cause.QUEUE_SLOTS
    assert evidence.text == "waited up to 3.3 s of 4.0 s; 8 of 8 slots were taken; 16 were waiting"
    assert cause(late, samples=[crowd(2)]) is Cause.QUEUE_SLOTS
    assert cause(late, samples=[sample(2, running=3, waiting=9, kv_usage=0.99)]) is Cause.QUEUE_KV


def test_of_several_engines_the_crowded_one_is_to_blame():
    other = KEY._replace(engine="1")
    samples = [quiet(1), sample(1, key=other, running=8, waiting=4)]
    assert cause(edge(took=4, ttft_s=3.3), samples=samples) is Cause.QUEUE_SLOTS


def test_others_that_wait_for_an_unknown_reason_leave_the_cause_unknown():
    late = edge(took=4, ttft_s=3.3)
    assert cause(late, samples=[sample(1, running=3, waiting=1, kv_usage=0.1)]) is Cause.UNKNOWN
    assert cause(late, samples=[crowd(1)], limits=Limits()) is Cause.UNKNOWN


def test_a_late_first_token_without_any_sample_is_unknown():
    evidence = classify(edge(took=4.0, ttft_s=3.3))
    assert evidence.cause is Cause.UNKNOWN
    assert evidence.text == "the first token took 3.3 s, over the target of 2.5 s; no engine sample tells why"


def test_an_idle_engine_and_a_long_prompt_are_the_prompt():
    late = edge(took=4, ttft_s=3.3, prompt_tokens=9000, cached_tokens=0)
    assert cause(late, samples=[quiet(-1), quiet(2)]) is Cause.PREFILL_LONG


def test_a_long_prompt_that_a_cache_may_have_held_leaves_the_cause_open():
    late = edge(took=4, ttft_s=3.3, prompt_tokens=9000)
    evidence = classify(late, samples=[quiet(-1), quiet(2)])
    assert evidence.cause is Cause.UNKNOWN
    assert evidence.text.endswith("how many of its 9000 prompt tokens a cache held is not known")
    assert cause(late, samples=[quiet(-1), quiet(2, running=0)]) is Cause.OUTSIDE_ENGINE


def test_an_idle_engine_and_a_short_or_cached_prompt_are_something_outside():
    samples = [quiet(-1), quiet(2)]
    assert cause(edge(took=4, ttft_s=3.3, prompt_tokens=90), samples=samples) is Cause.OUTSIDE_ENGINE
    cached = edge(took=4, ttft_s=3.3, prompt_tokens=9000, cached_tokens=8900)
    assert cause(cached, samples=samples) is Cause.OUTSIDE_ENGINE


def test_a_prompt_of_unknown_length_leaves_the_cause_open_unless_the_engine_ran_nothing():
    late = edge(took=4, ttft_s=3.3)
    assert cause(late, samples=[quiet(-1), quiet(2)]) is Cause.UNKNOWN
    assert cause(late, samples=[quiet(-1), quiet(2, running=0)]) is Cause.OUTSIDE_ENGINE


def test_an_engine_that_nobody_looked_at_meanwhile_was_not_idle():
    evidence = classify(edge(took=4, ttft_s=3.3, prompt_tokens=90), samples=[quiet(-1)])
    assert evidence.cause is Cause.UNKNOWN


def test_an_absent_gauge_is_not_an_idle_engine():
    samples = [sample(-1, running=1), sample(2, running=1)]
    assert cause(edge(took=4, ttft_s=3.3, prompt_tokens=90), samples=samples) is Cause.UNKNOWN


def test_the_pace_of_a_stream_needs_no_sample():
    assert cause(edge(took=20.5, ttft_s=0.5, completion_tokens=101)) is Cause.DECODE_SLOW
    long = edge(took=41, ttft_s=1.0, completion_tokens=2001)
    assert cause(long, usual=USUAL) is Cause.DECODE_LONG


def test_a_stream_that_mostly_waited_is_told_by_its_first_token():
    usual = Usual(duration_s=1.0)
    slow = {"took": 9.0, "ttft_s": 8.0}
    roomy = Targets(ttft=30, tpot=30)
    assert cause(edge(**slow), usual=usual, targets=roomy, samples=[crowd(2)]) is Cause.QUEUE_SLOTS
    idle = [quiet(-1), quiet(2)]
    assert (
        cause(edge(prompt_tokens=9, **slow), usual=usual, targets=roomy, samples=idle) is Cause.OUTSIDE_ENGINE
    )
    unknown = classify(edge(took=9.0, ttft_s=1.0), usual=usual, targets=roomy, samples=idle)
    assert unknown.text == (
        "the request took 9.0 s, over 3 times the profile's usual 1.0 s; "
        "how many tokens it decoded is not known"
    )


def test_the_worst_excess_is_what_is_explained():
    # The first token is four times over its target, the pace a tenth over its own.
    slow = edge(took=21, ttft_s=10.0, completion_tokens=101)
    assert cause(slow, samples=[crowd(-1), crowd(5)]) is Cause.QUEUE_SLOTS


def test_a_slow_answer_that_came_all_at_once_is_told_by_its_tokens_or_the_queue():
    usual = Usual(duration_s=2.0, completion_tokens=100)
    at_once = {"took": 20.0, "stream": False}
    assert (
        cause(edge(completion_tokens=1500, **at_once), usual=usual, samples=[crowd(1)]) is Cause.DECODE_LONG
    )
    assert cause(edge(completion_tokens=100, **at_once), usual=usual, samples=[crowd(1)]) is Cause.QUEUE_SLOTS
    assert cause(edge(completion_tokens=100, **at_once), usual=usual) is Cause.UNKNOWN
    idle = [quiet(1, running=0), quiet(15, running=0)]
    assert cause(edge(completion_tokens=100, **at_once), usual=usual, samples=idle) is Cause.OUTSIDE_ENGINE
    by_target = Targets(ttft=2.5, tpot=0.1, e2e=10.0)
    assert cause(edge(completion_tokens=400, **at_once), targets=by_target) is Cause.DECODE_LONG


def test_numbers_of_nothing_do_not_break_it():
    nothing = Usual(duration_s=0.0, completion_tokens=0, tpot_s=0.0)
    for values in ({"ttft_s": 3.0, "completion_tokens": 0}, {"stream": False, "completion_tokens": 0}, {}):
        assert classify(edge(took=9.0, **values), usual=nothing) is not None
