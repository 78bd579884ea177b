"""What held an engine back during a wait, read from its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from vllm_observe.engine.binding import binding_limit, utilization
from vllm_observe.engine.sampling import increase
from vllm_observe.model import BindingLimit, EngineKey, EngineSample, Limits
from vllm_observe.thresholds import KV_FULL, KV_NEAR_FULL, SLOTS_EXHAUSTED

__all__ = ["LimitsFor", "Pressure", "pressure"]

#: An engine's limits by its data-parallel rank.
LimitsFor = Callable[[str], Limits]

# What makes a request wait; of two that bound equally often the first.
_BINDING = (BindingLimit.SLOTS, BindingLimit.KV, BindingLimit.TOKEN_BUDGET, BindingLimit.DEFERRED)
# An engine tells how many run when those that ended in a step have left, and before others take their
# place: so of few slots one may always seem free, and of many a few.
_SEEM_FREE = 8  # one in so many
# Steps are full for the seconds that a long prompt takes, and not in all the time between two samples.
_STEPS_BUSY = 0.25
# What of a scrape tells of all the time since the one before it.
_COUNTERS = ("started", "preemptions", "steps", "step_tokens")


class Pressure(NamedTuple):
    """What bound the engine: ``NONE`` where nobody waited, ``None`` where the samples do not tell.

    ``text`` holds the numbers that say so, as clauses of a sentence; ``sure`` is false of a guess, which
    the samples of a longer time may better.
    """

    limit: BindingLimit | None
    text: str
    sure: bool = True


class _Reading(NamedTuple):
    sample: EngineSample
    limits: Limits
    limit: BindingLimit | None
    step_tokens: float | None = None  # mean of a step since the sample before

    @property
    def waiting(self) -> float:
        return self.sample.waiting or 0.0


def pressure(
    samples: Sequence[EngineSample], limits_for: LimitsFor, *, since: float, waited: bool = False
) -> Pressure:
    """Judge an engine, or several engines by the one where most waited.

    Args:
        samples: of the time of a wait and just before it, oldest first.
        limits_for: gives each engine's limits.
        since: when the wait began; what was before is asked only where nothing since then tells.
        waited: whether it is proven that a request waited, though no sample may show it.
    """
    readings = list(_read(samples, limits_for))
    if not readings:
        return Pressure(None, "no engine sample tells why")
    bound = [reading for reading in readings if reading.limit in _BINDING]
    bound = [reading for reading in bound if reading.sample.at >= since] or bound
    if bound:
        worst = _worst(_most_often(bound))
        return Pressure(worst.limit, _text(worst))
    if any(reading.waiting for reading in readings):
        return _crowded(readings, waited=waited)
    if waited:
        return _full(readings) or Pressure(None, _text(_worst(readings)))
    nobody = all(reading.limit is BindingLimit.NONE for reading in readings)
    return Pressure(BindingLimit.NONE if nobody else None, _text(readings[-1]))


def _crowded(readings: Sequence[_Reading], *, waited: bool) -> Pressure:
    """Judge an engine that let others wait, and none of whose limits is seen to bind."""
    times = sum(reading.waiting > 0 for reading in readings)
    full = [reading for reading in readings if _seems_full(reading)]
    if 2 * len(full) >= times:
        return Pressure(BindingLimit.SLOTS, _text(_fullest(full)), sure=False)
    busy = [reading for reading in readings if _seems_busy(reading, waited=waited)]
    if 2 * len(busy) >= times:
        text = _text(_worst(busy)._replace(limit=BindingLimit.TOKEN_BUDGET))
        return Pressure(BindingLimit.TOKEN_BUDGET, text, sure=False)
    worst = _worst(readings)
    if _stood_still(readings, worst):
        return Pressure(BindingLimit.SLOTS, f"{_text(worst)}; it ran no more than that all the while")
    return Pressure(None, _text(worst))


def _most_often(readings: Sequence[_Reading]) -> list[_Reading]:
    """Return the readings of the limit that bound most often."""
    by_limit = {limit: [one for one in readings if one.limit is limit] for limit in _BINDING}
    return max(by_limit.values(), key=len)


def _seems_full(reading: _Reading) -> bool:
    """Say whether others waited though so many ran that what was free had only just become so."""
    slots, running, kv_usage = reading.limits.slots, reading.sample.running, reading.sample.kv_usage
    if not slots or running is None or not reading.waiting:
        return False
    return running >= slots - max(1, slots // _SEEM_FREE) and (kv_usage or 0.0) < KV_NEAR_FULL


def _seems_busy(reading: _Reading, *, waited: bool) -> bool:
    """Say whether others waited though slots and blocks were left: then steps were full for a while.

    Where it is proven that a request waited for capacity, nothing else can have been missing.
    """
    slots, budget = reading.limits.slots, reading.limits.max_num_batched_tokens
    kv_usage, mean = reading.sample.kv_usage, reading.step_tokens
    if not slots or kv_usage is None or kv_usage >= KV_NEAR_FULL or not reading.waiting:
        return False
    if waited and reading.sample.waiting_capacity:
        return True
    return bool(budget and mean is not None and mean >= _STEPS_BUSY * budget)


def _fullest(readings: Iterable[_Reading]) -> _Reading:
    return max(readings, key=lambda reading: (reading.sample.running or 0.0, reading.waiting))


def _worst(readings: Sequence[_Reading]) -> _Reading:
    return max(readings, key=lambda reading: (reading.waiting, reading.sample.at))


def _read(samples: Sequence[EngineSample], limits_for: LimitsFor) -> Iterator[_Reading]:
    """Judge each sample by what was counted from the scrape before it to its own or the next one."""
    before: dict[EngineKey, EngineSample] = {}
    for sample, scrape in zip(samples, _scrapes_from(samples), strict=True):
        limits, last = limits_for(sample.key.engine), before.get(sample.key)
        now = sample if scrape is None or scrape is sample else _with_counters(sample, scrape)
        yield _Reading(now, limits, binding_limit(last, now, limits), _mean_step(last, now))
        if last is None or scrape is sample:
            before[sample.key] = sample


def _scrapes_from(samples: Sequence[EngineSample]) -> list[EngineSample | None]:
    """Return for each sample itself or the next of its engine that has counters, as those of scrapes have."""
    following: dict[EngineKey, EngineSample] = {}
    found: list[EngineSample | None] = []
    for sample in reversed(samples):
        if sample.steps is not None:
            following[sample.key] = sample
        found.append(following.get(sample.key))
    return found[::-1]


def _with_counters(sample: EngineSample, scrape: EngineSample) -> EngineSample:
    return msgspec.structs.replace(sample, **{name: getattr(scrape, name) for name in _COUNTERS})


def _mean_step(before: EngineSample | None, now: EngineSample) -> float | None:
    if before is None:
        return None
    steps, tokens = increase(before.steps, now.steps), increase(before.step_tokens, now.step_tokens)
    return tokens / steps if steps and tokens is not None else None


def _stood_still(readings: Iterable[_Reading], worst: _Reading) -> bool:
    """Say whether an engine of unknown limits ran the same number whenever others waited, and never more.

    That number is then most likely its limit.
    """
    same = [reading for reading in readings if reading.sample.key == worst.sample.key]
    running = {reading.sample.running for reading in same if reading.waiting > 0}
    most = max((reading.sample.running or 0.0 for reading in same), default=0.0)
    times = sum(reading.waiting > 0 for reading in same)
    return worst.limits.slots is None and times > 1 and running == {most} and most > 0


def _full(readings: Iterable[_Reading]) -> Pressure | None:
    for reading in readings:
        used, kv_usage = utilization(reading.sample, reading.limits), reading.sample.kv_usage
        if used is not None and used >= SLOTS_EXHAUSTED:
            return Pressure(BindingLimit.SLOTS, _text(reading))
        if kv_usage is not None and kv_usage >= KV_FULL:
            return Pressure(BindingLimit.KV, _text(reading._replace(limit=BindingLimit.KV)))
    return None


def _text(reading: _Reading) -> str:
    sample, slots = reading.sample, reading.limits.slots
    clauses = []
    if reading.limit is BindingLimit.KV and sample.kv_usage is not None:
        clauses.append(f"the KV cache was {sample.kv_usage:.0%} full")
    if reading.limit is BindingLimit.TOKEN_BUDGET and reading.step_tokens is not None:
        most = reading.limits.max_num_batched_tokens
        clauses.append(f"a step had {reading.step_tokens:.0f} of {most} tokens on average")
    if reading.limit is BindingLimit.DEFERRED and sample.waiting_deferred is not None:
        held = f"{sample.waiting_deferred:g} {_were(sample.waiting_deferred)}"
        clauses.append(f"{held} held back by a KV transfer, a LoRA slot or a grammar")
    if sample.running is not None:
        of, doing = (f" of {slots} slots", "taken") if slots else ("", "running")
        clauses.append(f"{sample.running:g}{of} {_were(sample.running)} {doing}")
    if sample.waiting is not None:
        clauses.append(f"{sample.waiting:g} {_were(sample.waiting)} waiting")
    return "; ".join(clauses) or "the engine's samples do not tell why"


def _were(count: float) -> str:
    return "was" if count == 1 else "were"
