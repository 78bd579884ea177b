from __future__ import annotations

from support.joins import T, sample
from vllm_observe.join.pressure import pressure
from vllm_observe.model import BindingLimit, EngineSample, Limits

LIMITS = Limits(max_num_seqs=8, max_num_batched_tokens=2048)


def crowd(at: float, **values: float) -> EngineSample:
    """Four of eight slots are taken, six wait."""
    return sample(at, **{"running": 4, "waiting": 6, "kv_usage": 0.2} | values)


def steps(at: float, tokens_each: float) -> dict[str, float]:
    """The counters of an engine that makes ten steps a second of so many tokens."""
    return {"steps": 1000 + 10 * at, "step_tokens": 1e6 + 10 * at * tokens_each}


def limit(*samples: EngineSample) -> BindingLimit | None:
    return pressure(samples, lambda _: LIMITS, since=T).limit


def test_what_was_told_between_two_scrapes_is_judged_by_what_they_counted():
    # Six looks at a cache that is nearly full say less than full steps in all that time.
    full = {"kv_usage": 0.96}
    told = [crowd(at, **full) for at in (1.0, 2.0, 3.0, 4.0)]
    first, last = crowd(0.0, **full, **steps(0.0, 2048)), crowd(5.0, **full, **steps(5.0, 2048))
    assert limit(first, *told, last) is BindingLimit.TOKEN_BUDGET
    assert limit(crowd(0.0, **full, **steps(0.0, 90)), *told, crowd(5.0, **full, **steps(5.0, 90))) is (
        BindingLimit.KV
    )


def test_what_was_told_does_not_hide_what_was_counted_from_scrape_to_scrape():
    scrapes = [crowd(at, preemptions=at) for at in (0.0, 5.0)]
    counted = [crowd(one.at - T, preemptions=one.preemptions, **steps(one.at - T, 90)) for one in scrapes]
    assert limit(counted[0], crowd(4.9), counted[1]) is BindingLimit.KV


def test_what_was_told_tells_by_itself_where_no_scrape_was():
    assert limit(crowd(1.0, running=8)) is BindingLimit.SLOTS
    assert limit(crowd(0.0, **steps(0.0, 90)), crowd(1.0, running=8), crowd(2.0, running=8)) is (
        BindingLimit.SLOTS
    )
