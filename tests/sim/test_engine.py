"""Scenarios small enough to be worked out by hand: steps of one second, 4 tokens to a block."""

from __future__ import annotations

import pytest

from support.sims import KEY, arrival, engine, run
from vllm_observe.sim.cost import Cost
from vllm_observe.sim.engine import Gauges, State
from vllm_observe.sim.prompts import Segment
from vllm_observe.sim.requests import End, Hold
from vllm_observe.sim.scheduler import EngineLimits


def test_with_two_slots_the_third_waits_for_the_first_to_end():
    ended = run(
        engine(max_num_seqs=2),
        arrival("a", output=3),
        arrival("b", output=5),
        arrival("c", output=2),
    )

    # a and b prefill in 0..1 and get their first token at 1; a has its third at 3, b its fifth at 5.
    assert [(name, one.at) for name, one in ended.items()] == [("a", 3.0), ("b", 5.0), ("c", 5.0)]
    assert [one.queue_s for one in ended.values()] == [0.0, 0.0, 3.0]
    assert [one.prefill_s for one in ended.values()] == [1.0, 1.0, 1.0]
    assert [one.decode_s for one in ended.values()] == [2.0, 4.0, 1.0]
    assert [one.ttft_s for one in ended.values()] == [1.0, 1.0, 4.0]
    assert [one.tpot_s for one in ended.values()] == [1.0, 1.0, 1.0]
    assert ended["c"].held == {Hold.SLOTS: 3.0}
    assert ended["a"].held == {}


def test_who_arrives_during_a_step_waits_for_its_end():
    ended = run(engine(), arrival("a", output=4), arrival("b", at=0.25, output=1), arrival("c", at=3.0))

    assert ended["b"].queue_s == 0.75
    assert ended["b"].held == {Hold.STEP: 0.75}
    assert ended["c"].queue_s == 0.0  # at the very end of a step: in time for the next


def test_the_first_that_does_not_fit_holds_back_all_behind_it():
    # 16 blocks: a takes 11 at once and 12 at the end; b needs 5, c would need 1.
    ended = run(
        engine(num_gpu_blocks=16, max_num_batched_tokens=100),
        arrival("a", prompt=44, output=4),
        arrival("b", prompt=24, output=1, at=0.5),
        arrival("c", prompt=4, output=1, at=0.6),
    )

    assert ended["a"].at == 4.0
    assert (ended["b"].scheduled_at, ended["c"].scheduled_at) == (4.0, 4.0)
    # From 0.5 to 1.0 it was only the step that they waited for.
    assert ended["b"].held == {Hold.STEP: 0.5, Hold.KV: 3.0}


def test_nobody_is_admitted_before_there_are_blocks_for_the_whole_prompt():
    # 16 blocks, four of them a step: a takes 8 for its prompt and 2 more; b would have 4 for its first step.
    ended = run(
        engine(num_gpu_blocks=16, max_num_batched_tokens=16),
        arrival("a", prompt=32, output=6),
        arrival("b", prompt=40, output=1),
    )

    assert (ended["a"].at, ended["b"].scheduled_at) == (7.0, 7.0)
    assert ended["b"].held == {Hold.BUDGET: 2.0, Hold.KV: 5.0}


def test_a_step_holds_as_many_tokens_as_its_budget_and_a_long_prompt_takes_several():
    ended = run(
        engine(max_num_batched_tokens=16),
        arrival("long", prompt=40, output=1),
        arrival("short", prompt=4, output=1),
    )

    # 16 + 16 + 8, and 4 of the third step's other 8.
    assert ended["long"].prefill_s == 3.0
    assert ended["short"].queue_s == 2.0
    assert ended["short"].held == {Hold.BUDGET: 2.0}


def test_without_chunked_prefill_a_prompt_waits_until_it_fits_a_step():
    ended = run(
        engine(max_num_batched_tokens=64, chunked_prefill=False),
        arrival("a", prompt=40, output=1),
        arrival("b", prompt=40, output=1),
    )

    assert (ended["a"].at, ended["b"].scheduled_at, ended["b"].at) == (1.0, 1.0, 2.0)


def test_for_want_of_a_block_the_last_admitted_is_thrown_out_and_computed_again():
    # 16 blocks. Each prompt fills 8, so that in the second step, 1..2, a needs a ninth: b goes.
    one = engine(num_gpu_blocks=16, prefix_caching=False)
    ended = run(one, arrival("a", prompt=32, output=3), arrival("b", prompt=32, output=3))

    assert one.tally.preemptions == 1
    assert (ended["a"].preemptions, ended["a"].at) == (0, 3.0)
    # b has one token at 1, is thrown out, comes back at 3 and has its second at 4, its third at 5.
    assert (ended["b"].preemptions, ended["b"].at) == (1, 5.0)
    assert (ended["b"].queue_s, ended["b"].prefill_s, ended["b"].decode_s) == (0.0, 1.0, 4.0)
    assert ended["b"].lost_s == 3.0
    assert ended["b"].output_tokens == 3
    assert one.tally.generation_tokens == 6
    # a: 1, 1; b: 3 (over the preemption), 1
    assert (one.tally.itl.count, one.tally.itl.sum) == (4, 6.0)


def test_a_token_after_a_preemption_is_as_late_as_it_was_after_the_last_one_before_it():
    # Here the blocks last for a step more: b has tokens at 1 and 2, is thrown out at 2, back at 4.
    one = engine(num_gpu_blocks=16, prefix_caching=False)
    ended = run(one, arrival("a", prompt=31, output=4), arrival("b", prompt=31, output=3))

    assert (ended["a"].at, ended["b"].at, ended["b"].lost_s) == (4.0, 5.0, 3.0)
    assert (one.tally.itl.count, one.tally.itl.sum) == (5, 7.0)


def test_nobody_is_admitted_in_a_step_that_throws_somebody_out():
    one = engine(num_gpu_blocks=16, prefix_caching=False, priority_scheduling=True)
    ended = run(
        one,
        arrival("a", prompt=32, output=4),
        arrival("b", prompt=32, output=4, priority=5),
        arrival("c", prompt=4, output=1, at=0.5),
    )

    assert ended["b"].preemptions == 1
    assert ended["c"].held == {Hold.STEP: 0.5, Hold.KV: 1.0}


def test_who_was_preempted_goes_before_those_that_wait():
    ended = run(
        engine(num_gpu_blocks=16, prefix_caching=False),
        arrival("a", prompt=32, output=3),
        arrival("b", prompt=32, output=3),
        arrival("c", prompt=32, output=1, at=0.5),
    )

    assert list(ended) == ["a", "b", "c"]
    assert ended["c"].scheduled_at == 5.0


def test_a_preempted_request_finds_its_own_blocks_if_nobody_took_them():
    one = engine(num_gpu_blocks=16, max_num_batched_tokens=1000)
    run(one, arrival("a", prompt=28, output=6), arrival("b", prompt=32, output=3))

    # Its prompt was cached, but the queries that count are those of first admissions alone.
    assert one.tally.prefix_queries == 60
    assert one.tally.prefix_hits == 0


def test_by_priority_the_lower_number_goes_first_and_the_highest_is_thrown_out():
    arrivals = [
        arrival("running", output=3),
        arrival("low", at=0.1, priority=5, output=1),
        arrival("high", at=0.2, priority=-5, output=1),
    ]

    assert list(run(engine(max_num_seqs=1, priority_scheduling=True), *arrivals)) == [
        "running",
        "high",
        "low",
    ]
    assert list(run(engine(max_num_seqs=1), *arrivals)) == ["running", "low", "high"]

    one = engine(num_gpu_blocks=16, prefix_caching=False, priority_scheduling=True)
    ended = run(one, arrival("a", prompt=32, output=3, priority=1), arrival("b", prompt=32, output=3))
    assert (ended["a"].preemptions, ended["b"].preemptions) == (1, 0)


def test_a_next_turn_finds_the_chat_before_it_in_the_cache():
    first = arrival("one", prompt=16, output=8)
    second = arrival("two", at=20.0, segments=(*first.prompt, first.answer, Segment("and then?", 4)))
    one = engine()
    ended = run(one, first, second)

    # The last of the answer's tokens was never computed: 5 of the 24 tokens' 6 blocks were filled.
    assert ended["two"].prompt_tokens == 28
    assert ended["two"].cached_tokens == 20
    assert (one.tally.prefix_queries, one.tally.prefix_hits) == (44, 20)


def test_a_whole_prompt_is_never_taken_from_the_cache():
    same = (Segment("the same", 16),)
    ended = run(engine(), arrival("a", segments=same), arrival("b", at=10.0, segments=same))

    assert ended["b"].cached_tokens == 12  # its last token must be computed, to have a next one


def test_deferred_requests_let_others_pass_and_are_told_apart():
    one = engine(max_num_seqs=1)
    ended = one.advance(0.0)
    one.submit(arrival("late", deferred_s=5.0, output=1))
    one.submit(arrival("soon", output=3))
    ended += one.advance(2.0)
    assert one.gauges == Gauges(running=1, waiting=1, deferred=1, kv_usage=3 / 64)
    ended += one.advance(100.0)

    assert [(done.arrival.request_id, done.at) for done in ended] == [("soon", 3.0), ("late", 6.0)]
    assert ended[1].held[Hold.DEFERRED] == 5.0


def test_a_client_that_leaves_frees_its_place_and_is_in_no_histogram_of_vllm():
    one = engine(max_num_seqs=1)
    ended = run(
        one,
        arrival("leaves", output=50, leaves_after_s=2.5),
        arrival("waits", output=1),
        arrival("impatient", output=1, leaves_after_s=1.0),
    )

    assert ended["leaves"].end is End.LEFT
    assert (ended["leaves"].at, ended["leaves"].output_tokens) == (2.5, 2)
    assert (ended["impatient"].at, ended["impatient"].held) == (1.0, {Hold.SLOTS: 1.0})
    assert ended["waits"].scheduled_at == 3.0
    assert one.tally.finished == {"stop": 1}
    assert one.tally.e2e.count == 1
    assert one.gauges == Gauges()


def test_a_finish_is_length_where_max_tokens_cut_it_and_stop_where_it_did_not():
    ended = run(engine(), arrival("cut", output=9, max_tokens=3), arrival("whole", output=3, max_tokens=9))

    assert (ended["cut"].end, ended["cut"].output_tokens) == (End.LENGTH, 3)
    assert (ended["whole"].end, ended["whole"].output_tokens) == (End.STOP, 3)


def test_what_is_longer_than_the_model_s_context_is_invalid():
    ended = run(
        engine(),
        arrival("long", prompt=60, output=5),
        arrival("fits", prompt=60, output=4),
    )

    assert ended["long"].end is End.INVALID
    assert ended["fits"].finished


def test_a_hung_engine_takes_requests_says_nothing_new_and_goes_on_where_it_was():
    one = engine()
    one.submit(arrival("a", output=3))
    one.advance(1.5)
    before = one.sample(1.5)
    one.become(State.HUNG)
    one.submit(arrival("b", output=1))
    assert one.advance(50.0) == []
    after = one.sample(50.0)
    assert (after.running, after.waiting, after.generation_tokens) == (1, 0, 1)
    assert before.generation_tokens == 1
    one.become(State.SERVING)
    ended = one.advance(100.0)

    assert [(done.arrival.request_id, done.at) for done in ended] == [("a", 51.5), ("b", 51.5)]
    assert ended[1].held[Hold.HUNG] == 48.5


def test_a_sleeping_engine_says_so():
    one = engine()
    one.become(State.SLEEPING)
    one.submit(arrival("a", output=1))
    assert one.advance(10.0) == []
    assert one.sample(10.0).awake is False
    one.become(State.SERVING)

    assert [done.at for done in one.advance(20.0)] == [11.0]


def test_a_crash_fails_what_runs_and_what_comes_later():
    one = engine()
    one.submit(arrival("a", output=9))
    one.advance(2.5)
    one.crash()
    one.submit(arrival("b"))
    ended = one.advance(10.0)

    assert [(done.arrival.request_id, done.end, done.at) for done in ended] == [
        ("a", End.FAILED, 2.5),
        ("b", End.FAILED, 2.5),
    ]
    assert one.tally.e2e.count == 0
    assert one.scheduler.pool.free == one.scheduler.pool.total


def test_an_engine_that_loads_takes_nothing_until_it_is_ready():
    ended = run(engine(ready_at=10.0), arrival("early", at=3.0), arrival("late", at=12.0, output=1))

    assert ended["early"].end is End.REFUSED
    assert ended["late"].at == 13.0


def test_the_hardware_s_cost_and_its_slowdown_make_the_time_of_a_step():
    cost = Cost(overhead=0.5, per_prompt_token=0.25, per_decode=0.125, per_context_token=0.0625)
    one = engine(cost=cost)
    ended = run(one, arrival("a", prompt=2, output=2))
    # 0.5 + 2 * 0.25; then 0.5 + 0.125 + a context of 2 * 0.0625
    assert (ended["a"].prefill_s, ended["a"].decode_s) == (1.0, 0.75)

    one = engine(cost=cost)
    one.pace.slowdown = 4.0
    assert run(one, arrival("a", prompt=2, output=1))["a"].prefill_s == 4.0


def test_counters_are_what_vllm_counts():
    one = engine(max_num_batched_tokens=16)
    run(one, arrival("a", prompt=40, output=3, max_tokens=10), arrival("b", prompt=4, output=2))
    tally = one.tally

    assert (tally.prompt_tokens, tally.generation_tokens) == (44, 5)
    # Two steps with only a part of a prompt are not counted; then 44 + 2, 2 and 1 tokens.
    assert (tally.step_tokens.count, tally.step_tokens.sum) == (3, 49.0)
    assert (tally.ttft.count, tally.itl.count, tally.e2e.count) == (2, 3, 2)
    assert tally.request_max_tokens.sum == 10.0
    assert one.sample(9.0).key == KEY


def test_a_dead_engine_does_not_come_back_and_none_loads_again():
    one = engine()
    one.crash()
    one.become(State.SERVING)
    assert one.state is State.DEAD
    for state in (State.LOADING, State.DEAD):
        with pytest.raises(ValueError, match="an engine cannot become"):
            engine().become(state)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_num_seqs": 0},
        {"max_model_len": 1000, "num_gpu_blocks": 10, "block_size": 16},
        {"max_num_batched_tokens": 100},
        {"chunked_prefill": False},
    ],
)
def test_limits_that_vllm_would_refuse_are_refused(wrong):
    with pytest.raises(ValueError, match=r"max_num|KV cache|every limit"):
        EngineLimits(**wrong)
