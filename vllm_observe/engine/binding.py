"""The binding limit: which of its limits holds an engine back, judged from what is exposed."""

from __future__ import annotations

from vllm_observe.engine.sampling import increase
from vllm_observe.model import BindingLimit, EngineSample, Limits
from vllm_observe.thresholds import KV_FULL, SLOTS_EXHAUSTED, STEP_FULL, STEPS_MOSTLY_FULL

__all__ = ["binding_limit", "utilization"]


def utilization(sample: EngineSample, limits: Limits) -> float | None:
    """Return running requests over the engine's limit; ``None`` where either is not known."""
    if sample.running is None or not limits.slots or limits.slots < 0:
        return None
    return sample.running / limits.slots


def binding_limit(
    previous: EngineSample | None, current: EngineSample, limits: Limits
) -> BindingLimit | None:
    """Return what holds the engine back; ``None`` where the evidence does not tell.

    After each step the scheduler tells how many requests it had to leave waiting, so one that waits
    for capacity found no slot, no KV blocks, or no tokens left in the step's budget.

    Args:
        previous: the same engine's sample before, from the same process and not long ago.
        current: the sample to judge.
        limits: the engine's limits.
    """
    if current.waiting is None:
        return None
    if current.waiting == 0:
        return BindingLimit.NONE
    if not _waiting_for_capacity(current, current.waiting):
        return BindingLimit.DEFERRED if current.waiting_deferred else None
    used = utilization(current, limits)
    below = used is not None and used < SLOTS_EXHAUSTED
    kv_full = current.kv_usage is not None and current.kv_usage >= KV_FULL
    # In this order: running requests thrown out for want of blocks are proof, even at the limit of
    # slots, where more slots would only throw out more. Without them a full batch binds first: more
    # blocks would admit nobody. Then full steps: the scheduler looks for blocks only while a step has
    # tokens left, and whoever finds none adds no tokens to it; so beside a full cache it is enough that
    # full steps took most of the time. The rest is told by elimination, so a free slot must be known.
    full = STEPS_MOSTLY_FULL if kv_full else STEP_FULL
    signs = (
        (BindingLimit.KV, _preempting(previous, current)),
        (BindingLimit.SLOTS, used is not None and not below),
        (BindingLimit.SLOTS, _slots_just_left(previous, current, limits)),
        (BindingLimit.TOKEN_BUDGET, below and _steps_full(previous, current, limits, full)),
        (BindingLimit.KV, kv_full),
        (BindingLimit.KV, below and _no_room_for_another(current)),
    )
    return next((limit for limit, binds in signs if binds), None)


def _waiting_for_capacity(sample: EngineSample, waiting: float) -> float:
    """Return how many wait for capacity: all of them on a release that gives no reasons."""
    if sample.waiting_capacity is not None:
        return sample.waiting_capacity
    return max(0.0, waiting - (sample.waiting_deferred or 0.0))


def _preempting(previous: EngineSample | None, current: EngineSample) -> bool:
    return previous is not None and bool(increase(previous.preemptions, current.preemptions))


def _slots_just_left(previous: EngineSample | None, current: EngineSample, limits: Limits) -> bool:
    """Say whether no more slots are free than requests start in a step.

    An engine tells how many run when those that ended with a step have left, and before the next step
    puts others in their places.
    """
    if previous is None or current.running is None or not limits.slots:
        return False
    steps, started = increase(previous.steps, current.steps), increase(previous.started, current.started)
    if not steps or not started:
        return False
    return current.running + started / steps >= SLOTS_EXHAUSTED * limits.slots


def _steps_full(previous: EngineSample | None, current: EngineSample, limits: Limits, share: float) -> bool:
    # Releases before 0.23 count cached tokens in a step, and none counts a step that only computed
    # a part of a prompt: the mean may be too high, so the signs that are proof come first.
    if previous is None or not limits.max_num_batched_tokens:
        return False
    steps = increase(previous.steps, current.steps)
    tokens = increase(previous.step_tokens, current.step_tokens)
    if not steps or tokens is None:
        return False
    return tokens / steps >= share * limits.max_num_batched_tokens


def _no_room_for_another(sample: EngineSample) -> bool:
    """Say whether the free blocks would not hold one more request like those that run.

    With large requests in a small cache that is so at a usage of 0.6 already.
    """
    if not sample.running or sample.kv_usage is None:
        return False
    return 1 - sample.kv_usage < sample.kv_usage / sample.running
