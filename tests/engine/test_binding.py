from __future__ import annotations

import pytest

from support.engines import capture, case, sample
from vllm_observe.engine.binding import binding_limit, utilization
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.model import BindingLimit, EngineSample, Limits

SLOTS_8 = Limits(max_num_seqs=8)
#: What the server of the 0.32.0 captures was started with.
REAL = Limits(max_num_seqs=8, max_num_batched_tokens=2048, max_model_len=2048)


def recorded(name: str) -> EngineSample:
    [found] = engine_samples(capture(name), at=0.0)
    return found


def crowded(**values: float) -> EngineSample:
    """Two run and four wait for capacity, with a quarter of the blocks in use."""
    return sample(**{"running": 2.0, "waiting": 4.0, "waiting_capacity": 4.0, "kv_usage": 0.25} | values)


# --- utilization --------------------------------------------------------------------------------


def test_each_rank_is_measured_against_the_limit_of_one_engine():
    ratios = [
        utilization(s, Limits(max_num_seqs=64))
        for s in engine_samples(case("05-dp-engines/scrape.prom"), at=0.0)
    ]
    assert ratios == [0.9375, 1.0, 0.03125, 0.0]


@pytest.mark.parametrize("limits", [Limits(), Limits(max_num_seqs=0), Limits(max_num_seqs=-1)])
def test_without_a_usable_limit_there_is_no_ratio(limits):
    assert utilization(sample(running=5.0), limits) is None


def test_without_a_running_gauge_there_is_no_ratio():
    assert utilization(sample(), SLOTS_8) is None


def test_the_lower_limit_on_active_requests_counts():
    assert utilization(sample(running=4.0), Limits(max_num_seqs=16, max_num_active_seqs=4)) == 1.0


# --- what real engines showed -------------------------------------------------------------------


def test_a_real_full_batch_is_bound_by_slots():
    before, now = recorded("vllm-0.32.0/saturated.prom"), recorded("vllm-0.32.0/saturated-1s-later.prom")
    assert binding_limit(before, now, REAL) is BindingLimit.SLOTS
    assert binding_limit(None, before, SLOTS_8) is BindingLimit.SLOTS


def test_a_real_full_batch_of_an_old_engine_without_reasons_is_bound_by_slots():
    assert binding_limit(None, recorded("vllm-0.9.2-v0/saturated.prom"), SLOTS_8) is BindingLimit.SLOTS


def test_a_real_full_batch_is_not_judged_without_its_limit():
    assert binding_limit(None, recorded("vllm-0.32.0/saturated.prom"), Limits()) is None


@pytest.mark.parametrize("limits", [REAL, Limits()])
def test_real_preemptions_are_for_want_of_kv_whatever_the_usage_is(limits):
    names = [f"vllm-0.32.0/preempting-{at}.prom" for at in ("06", "12", "20")]
    first, second, third = map(recorded, names)
    assert second.kv_usage < 0.7  # three large requests, and no room for a fourth
    assert binding_limit(first, second, limits) is BindingLimit.KV
    assert binding_limit(second, third, limits) is BindingLimit.KV


def test_a_real_full_cache_is_told_from_one_scrape():
    assert binding_limit(None, recorded("vllm-0.32.0/preempting-06.prom"), REAL) is BindingLimit.KV
    # 4 requests hold 17 of 19 blocks, 2 are free
    assert binding_limit(None, recorded("vllm-0.32.0/preempting-20.prom"), REAL) is BindingLimit.KV


def test_one_scrape_of_real_large_requests_in_a_cache_with_free_blocks_is_not_judged():
    assert binding_limit(None, recorded("vllm-0.32.0/preempting-12.prom"), REAL) is None


@pytest.mark.parametrize("name", ["vllm-0.32.0/idle.prom", "vllm-0.16.0-engine-dead/metrics.prom"])
def test_an_idle_engine_is_not_bound(name):
    assert binding_limit(None, recorded(name), REAL) is BindingLimit.NONE


def test_full_ranks_with_no_queue_are_not_bound():
    ranks = engine_samples(capture("vllm-0.32.0/data-parallel-2.prom"), at=0.0)
    assert len(ranks) == 2
    for now in ranks:
        assert utilization(now, SLOTS_8) == 1.0
        assert binding_limit(None, now, SLOTS_8) is BindingLimit.NONE


def test_a_queue_before_an_idle_engine_is_not_explained_by_its_limits():
    [stuck] = engine_samples(case("07-engine-stalled/stall_360.prom"), at=360.0)
    assert binding_limit(None, stuck, REAL) is None


# --- one sign at a time -------------------------------------------------------------------------


def test_without_a_queue_gauge_nothing_is_said():
    assert binding_limit(None, sample(running=8.0), SLOTS_8) is None


def test_requests_that_wait_for_something_else_are_deferred():
    now = crowded(running=8.0, waiting_capacity=0.0, waiting_deferred=4.0)
    assert binding_limit(None, now, SLOTS_8) is BindingLimit.DEFERRED


def test_one_request_that_waits_for_capacity_counts_beside_deferred_ones():
    now = crowded(running=8.0, waiting=4.0, waiting_capacity=1.0, waiting_deferred=3.0)
    assert binding_limit(None, now, SLOTS_8) is BindingLimit.SLOTS


def test_a_reason_that_is_not_known_yet_is_not_guessed():
    assert (
        binding_limit(None, crowded(running=8.0, waiting_capacity=0.0, waiting_deferred=0.0), SLOTS_8) is None
    )


def test_the_last_slot_of_a_large_batch_may_be_empty_for_a_moment():
    limits = Limits(max_num_seqs=256)
    assert binding_limit(None, crowded(running=255.0), limits) is BindingLimit.SLOTS
    assert binding_limit(None, crowded(running=240.0), limits) is None


def test_a_full_batch_binds_before_a_full_cache():
    assert binding_limit(None, crowded(running=8.0, kv_usage=0.97), SLOTS_8) is BindingLimit.SLOTS


@pytest.mark.parametrize(
    ("running", "bound"),
    [(59.0, BindingLimit.SLOTS), (58.0, None)],  # 59 + 4 are 63 of 64, the last of which may be empty
)
def test_slots_that_are_filled_again_with_each_step_are_not_free(running, bound):
    # 40 requests started in 10 steps: 4 a step, in the places of 4 that had left
    before = crowded(running=60.0, steps=500.0, started=1000.0)
    now = crowded(running=running, steps=510.0, started=1040.0)
    assert binding_limit(before, now, Limits(max_num_seqs=64)) is bound


@pytest.mark.parametrize(
    "before", [None, crowded(steps=500.0), crowded(started=1000.0), crowded(started=2e3)]
)
def test_without_its_counters_a_free_slot_is_free(before):
    now = crowded(running=59.0, steps=510.0, started=1040.0)
    assert binding_limit(before, now, Limits(max_num_seqs=64)) is None


def test_preemptions_bind_before_a_full_batch():
    before, now = crowded(running=8.0, preemptions=3.0), crowded(running=8.0, preemptions=4.0)
    assert binding_limit(before, now, SLOTS_8) is BindingLimit.KV


def test_preemptions_of_before_a_restart_are_no_sign():
    before, now = crowded(preemptions=9.0), crowded(preemptions=1.0)
    assert binding_limit(before, now, SLOTS_8) is None


@pytest.mark.parametrize(("tokens", "bound"), [(690.0, BindingLimit.TOKEN_BUDGET), (680.0, BindingLimit.KV)])
def test_steps_that_are_mostly_full_bind_before_a_full_cache(tokens, bound):
    # Who finds no block is not admitted, and adds no tokens to a step: in a third of the steps, of 2048
    # tokens, there were blocks.
    before = crowded(steps=500.0, step_tokens=70_000.0, kv_usage=0.96)
    now = crowded(steps=600.0, step_tokens=70_000.0 + 100 * tokens, kv_usage=0.96)
    assert binding_limit(before, now, REAL) is bound
    assert binding_limit(None, now, REAL) is BindingLimit.KV


def test_a_full_cache_is_a_sign_without_knowing_the_slots():
    assert binding_limit(None, crowded(kv_usage=0.96), Limits()) is BindingLimit.KV


def test_a_cache_with_room_for_another_such_request_does_not_bind():
    # half the blocks for two requests: a quarter each, and two more would fit
    assert binding_limit(None, crowded(kv_usage=0.5), SLOTS_8) is None
    # 0.8 for two: 0.4 each, and 0.2 are free
    assert binding_limit(None, crowded(kv_usage=0.8), SLOTS_8) is BindingLimit.KV
    # it may be the slots as well, where their number is not known
    assert binding_limit(None, crowded(kv_usage=0.8), Limits()) is None


@pytest.mark.parametrize(
    ("tokens", "bound"),
    [(100 * 1900.0, BindingLimit.TOKEN_BUDGET), (100 * 1800.0, None)],  # 0.9 x 2048 = 1843.2
)
def test_full_steps_are_bound_by_their_token_budget(tokens, bound):
    before = crowded(steps=500.0, step_tokens=70_000.0)
    now = crowded(steps=600.0, step_tokens=70_000.0 + tokens)
    assert binding_limit(before, now, REAL) is bound


@pytest.mark.parametrize(
    ("before", "limits"),
    [
        (None, REAL),
        (crowded(steps=500.0), REAL),
        (crowded(steps=600.0, step_tokens=0.0), REAL),  # not one step since
        (crowded(steps=500.0, step_tokens=0.0), SLOTS_8),  # no budget known
        (crowded(steps=500.0, step_tokens=0.0), Limits(max_num_batched_tokens=2048)),  # no slots known
        (crowded(steps=9000.0, step_tokens=9e9), REAL),  # of before a restart
    ],
)
def test_a_token_budget_is_not_told_without_all_its_numbers(before, limits):
    assert binding_limit(before, crowded(steps=600.0, step_tokens=1e6), limits) is None
