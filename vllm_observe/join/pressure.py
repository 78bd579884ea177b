"""What held an engine back during a wait, read from its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from vllm_observe.engine.binding import binding_limit, utilization
from vllm_observe.model import BindingLimit, EngineKey, EngineSample, Limits
from vllm_observe.thresholds import KV_FULL, SLOTS_EXHAUSTED

__all__ = ["LimitsFor", "Pressure", "pressure"]

#: An engine's limits by its data-parallel rank.
LimitsFor = Callable[[str], Limits]

# What makes a request wait: first the two that a cause stands for.
_BINDING = (
    (BindingLimit.SLOTS, BindingLimit.KV),
    (BindingLimit.TOKEN_BUDGET, BindingLimit.DEFERRED),
)


class Pressure(NamedTuple):
    """What bound the engine: ``NONE`` where nobody waited, ``None`` where the samples do not tell.

    ``text`` holds the numbers that say so, as clauses of a sentence.
    """

    limit: BindingLimit | None
    text: str


class _Reading(NamedTuple):
    sample: EngineSample
    limits: Limits
    limit: BindingLimit | None

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
    for limits in _BINDING:
        bound = [reading for reading in readings if reading.limit in limits]
        if bound:
            worst = _worst([reading for reading in bound if reading.sample.at >= since] or bound)
            return Pressure(worst.limit, _text(worst))
    worst = _worst(readings)
    if worst.waiting > 0:
        if _stood_still(readings, worst):
            return Pressure(BindingLimit.SLOTS, f"{_text(worst)}; it ran no more than that all the while")
        return Pressure(None, _text(worst))
    if waited:
        return _full(readings) or Pressure(None, _text(worst))
    nobody = all(reading.limit is BindingLimit.NONE for reading in readings)
    return Pressure(BindingLimit.NONE if nobody else None, _text(readings[-1]))


def _worst(readings: Sequence[_Reading]) -> _Reading:
    return max(readings, key=lambda reading: (reading.waiting, reading.sample.at))


def _read(samples: Iterable[EngineSample], limits_for: LimitsFor) -> Iterable[_Reading]:
    previous: dict[EngineKey, EngineSample] = {}
    for sample in samples:
        limits = limits_for(sample.key.engine)
        yield _Reading(sample, limits, binding_limit(previous.get(sample.key), sample, limits))
        previous[sample.key] = sample


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
    if sample.running is not None:
        of, doing = (f" of {slots} slots", "taken") if slots else ("", "running")
        clauses.append(f"{sample.running:g}{of} {_were(sample.running)} {doing}")
    if sample.waiting is not None:
        clauses.append(f"{sample.waiting:g} {_were(sample.waiting)} waiting")
    return "; ".join(clauses) or "the engine's samples do not tell why"


def _were(count: float) -> str:
    return "was" if count == 1 else "were"
