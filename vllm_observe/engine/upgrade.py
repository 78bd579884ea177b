"""Put a vLLM's families, whatever its release and wrapper, under today's names: once, here, for all.

What there is to do depends on the families and their series, not on the values. So it is planned
once, and carried out scrape by scrape until a family or a series comes or goes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vllm_observe.engine.arrange import Point
from vllm_observe.engine.plan import Plan, Step, make_plan
from vllm_observe.errors import Drop
from vllm_observe.model import Family, Kind, Sample
from vllm_observe.signals import Combine

__all__ = ["LoraState", "Upgraded", "Upgrader"]

#: No server holds a billion adapters; a longer number is no count.
_MAX_DIGITS = 9


class LoraState(NamedTuple):
    """The LoRA adapters of a server now: how many may be loaded, and which have requests."""

    max_adapters: int | None
    running: tuple[str, ...]
    waiting: tuple[str, ...]


class Upgraded(NamedTuple):
    """A vLLM's families under today's names.

    Attributes:
        families: in the order of their first appearance; each has samples, and all of them together
            make a valid OpenMetrics page.
        lora: ``None`` where the server tells nothing of LoRA.
        found: for each signal's key the exposed family that serves it.
        dropped: how many samples are left out.
    """

    families: tuple[Family, ...]
    lora: LoraState | None
    found: Mapping[str, str]
    dropped: Mapping[Drop, int]


class Upgrader:
    """Upgrades the families of one server, scrape by scrape."""

    def __init__(self) -> None:
        self._plan: Plan | None = None

    def upgrade(self, families: Iterable[Family]) -> Upgraded:
        """Put families under today's names.

        Raises:
            ScrapeError: NO_VLLM_METRICS where none is vLLM's; the message names what there is.
        """
        families = tuple(families)
        samples = [sample for family in families for sample in family.samples]
        plan = self._plan
        if plan is None or not plan.fits(families, samples):
            plan = self._plan = make_plan(families)
        return Upgraded(
            tuple(
                families[step.source]
                if step.points is None
                else _family(step, families[step.source], samples)
                for step in plan.steps
            ),
            _lora_state([samples[place] for place in plan.lora]),
            plan.found,
            plan.dropped,
        )


def _family(step: Step, source: Family, samples: Sequence[Sample]) -> Family:
    """Carry out one step of a plan."""
    points = tuple(_sample(point, step.kind, samples) for point in step.points or ())
    return Family(step.name, step.kind, source.help, points, source.unit)


def _sample(point: Point, kind: Kind, samples: Sequence[Sample]) -> Sample:
    """Give a point its value: that of its sample, or one value of those of several processes."""
    first, *others = point.sources
    if not others:
        sample = samples[first]
        return (
            sample if sample.series is point.series else Sample(point.series, sample.value, sample.exemplar)
        )
    parts = [samples[place] for place in point.sources]
    numbers = [part.value for part in parts if not math.isnan(part.value)]
    combine = sum if Combine.of(kind) is Combine.SUM else max
    exemplar = next((part.exemplar for part in parts if part.exemplar), None)
    return Sample(point.series, combine(numbers) if numbers else math.nan, exemplar)


def _lora_state(samples: Iterable[Sample]) -> LoraState | None:
    """Read the series with the largest value: each value is a time, and the last word holds."""
    told = [sample for sample in samples if not math.isnan(sample.value)]
    if not told:
        return None
    series = max(told, key=lambda sample: sample.value).series
    limit = series.label("max_lora") or ""
    return LoraState(
        max_adapters=int(limit)
        if limit.isascii() and limit.isdecimal() and len(limit) <= _MAX_DIGITS
        else None,
        running=_names(series.label("running_lora_adapters")),
        waiting=_names(series.label("waiting_lora_adapters")),
    )


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())
