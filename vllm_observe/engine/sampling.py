"""Engine samples: what one exposition says about each engine, as numbers that can be compared.

Read from upgraded families, so that only today's names are met here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import NamedTuple

from vllm_observe.model import EngineKey, EngineSample, Family, Series
from vllm_observe.signals import BY_KEY, Combine

__all__ = ["engine_samples", "increase", "known", "work_present"]


class _Source(NamedTuple):
    """Which series of a signal make a field: their suffix, and the one label value they must have."""

    field: str
    signal: str
    suffix: str = ""
    label: tuple[str, str] | None = None


_SOURCES = (
    _Source("running", "running"),
    _Source("waiting", "waiting"),
    _Source("waiting_capacity", "waiting_by_reason", label=("reason", "capacity")),
    _Source("waiting_deferred", "waiting_by_reason", label=("reason", "deferred")),
    _Source("kv_usage", "kv_usage"),
    _Source("awake", "sleep_state", label=("sleep_state", "awake")),
    _Source("prompt_tokens", "prompt_tokens"),
    _Source("generation_tokens", "generation_tokens"),
    _Source("started", "ttft", suffix="_count"),
    _Source("finished", "finished"),
    _Source("preemptions", "preemptions"),
    _Source("steps", "step_tokens", suffix="_count"),
    _Source("step_tokens", "step_tokens", suffix="_sum"),
)

_BY_FAMILY = {
    BY_KEY[source.signal].name: [other for other in _SOURCES if other.signal == source.signal]
    for source in _SOURCES
}
#: How the series of a field that differ in other labels (a finish reason) become one number.
_ADD = {
    source.field: max if BY_KEY[source.signal].combine is Combine.MAX else operator.add for source in _SOURCES
}
#: What tells replicas apart where one page shows them all, as that of a Ray node does; the first that
#: is there is enough.
_REPLICA = ("ReplicaId", "WorkerId")


def engine_samples(families: Iterable[Family], at: float) -> list[EngineSample]:
    """Return the state of each engine in an exposition, in the order of their keys.

    A label that a release does not have is empty in the key, as it is for Prometheus. Each replica has
    engines, and so limits, of its own: it is named in the key, behind the rank. What is not
    exposed is ``None``, and so is what no gauge or counter can be: NaN, infinite or negative.

    Args:
        families: upgraded families.
        at: when they were scraped, in seconds since the Unix epoch.
    """
    engines: dict[EngineKey, dict[str, float]] = {}
    for family in families:
        for source in _BY_FAMILY.get(family.name, ()):
            name, add = family.name + source.suffix, _ADD[source.field]
            for series, value, _ in family.samples:
                if series.name == name and _has(series, source.label):
                    fields = engines.setdefault(_key(series), {})
                    before = fields.get(source.field)
                    fields[source.field] = value if before is None else add(before, value)
    return [_sample(at, key, fields) for key, fields in sorted(engines.items())]


def _has(series: Series, label: tuple[str, str] | None) -> bool:
    return label is None or series.label(label[0]) == label[1]


def _key(series: Series) -> EngineKey:
    engine = series.label("engine") or ""
    replica = next(filter(None, map(series.label, _REPLICA)), None)
    return EngineKey(series.label("model_name") or "", f"{engine}@{replica}" if replica else engine)


def _sample(at: float, key: EngineKey, fields: dict[str, float]) -> EngineSample:
    values = {field: known(value) for field, value in fields.items()}
    awake = values.pop("awake", None)
    return EngineSample(at=at, key=key, awake=None if awake is None else awake > 0, **values)


def known(value: float) -> float | None:
    """Return a value that a count, a share or a total can have; ``None`` for any other."""
    return value if math.isfinite(value) and value >= 0 else None


def work_present(sample: EngineSample) -> bool | None:
    """Say whether an engine runs or holds back any request; ``None`` where it does not tell."""
    counts = (sample.running, sample.waiting)
    if any(counts):
        return True
    return None if None in counts else False


def increase(before: float | None, now: float | None) -> float | None:
    """Return by how much a counter rose, never less than 0; ``None`` where that is not known.

    A counter that fell was reset, so that what it counted in between is lost.
    """
    if before is None or now is None or now < before:
        return None
    return now - before
