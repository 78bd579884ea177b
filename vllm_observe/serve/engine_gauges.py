"""What we add to vLLM's own metrics of its engines: limits, utilization, what binds, what is wrong.

Computed anew for each page from what is fresh, so that a stale engine is absent and never frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from vllm_observe.engine.binding import binding_limit, utilization
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.engine.upgrade import LoraState
from vllm_observe.engine.watch import EngineWatch
from vllm_observe.join.cardinality import LabelCap
from vllm_observe.model import BindingLimit, Family, Limits, Sample, Series, ServiceClass
from vllm_observe.serve.capacity import kv_capacities
from vllm_observe.signals import OWN

__all__ = ["engine_gauges", "lora_gauges", "scrape_gauges", "target_info"]

_TABLE = {metric.name: metric for metric in OWN}


class _Value(NamedTuple):
    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


def engine_gauges(
    tracker: EngineTracker, families: Iterable[Family], *, limits_for: Callable[[str], Limits]
) -> list[Family]:
    """Return our gauges of a server's engines; of a stale server none.

    Args:
        tracker: follows the engines.
        families: vLLM's own, as last scraped.
        limits_for: gives an engine's limits by its rank.
    """
    return _families(_engine_values(tracker, kv_capacities(families), limits_for))


def _engine_values(
    tracker: EngineTracker, capacities: Mapping[str, int], limits_for: Callable[[str], Limits]
) -> Iterator[_Value]:
    for view in tracker.engines():
        key = view.sample.key
        labels = (("model_name", key.model_name), ("engine", key.engine))
        limits = limits_for(key.engine)
        told = {
            "vllm_observe_max_num_seqs": limits.slots,
            "vllm_observe_sequence_utilization_ratio": utilization(view.sample, limits),
            "vllm_observe_kv_cache_capacity_tokens": capacities.get(key.engine),
            "vllm_observe_engine_stalled": view.stalled,
        }
        for name, value in told.items():
            if value is not None:
                yield _Value(name, float(value), labels)
        binds = binding_limit(view.previous, view.sample, limits)
        if binds is not None:
            for limit in BindingLimit:
                yield _Value(
                    "vllm_observe_binding_limit", float(limit is binds), (*labels, ("limit", limit.value))
                )
    answers = tracker.answers_without_tokens()
    if answers is not None:
        yield _Value("vllm_observe_engine_answers_without_tokens", float(answers))


def scrape_gauges(watch: EngineWatch) -> list[Family]:
    """Return how the scraping of a server goes now."""
    success = watch.failure is None and watch.current() is not None
    values = [_Value("vllm_observe_scrape_success", float(success))]
    if success and watch.look is not None:
        values.append(_Value("vllm_observe_scrape_duration_seconds", watch.look.seconds))
    return _families(values)


def target_info(service_class: ServiceClass, limits: Limits) -> list[Family]:
    """Return which targets apply to a server, and what is known of it and from where."""
    labels = {
        "service_class": service_class.value,
        "vllm_version": limits.vllm_version or "",
        "limits_source": limits.source.value,
    }
    return _families([_Value("vllm_observe_target_info", 1, tuple(labels.items()))])


def lora_gauges(lora: LoraState | None, adapters: LabelCap) -> list[Family]:
    """Return our gauges of a server's LoRA adapters.

    vLLM's own series names all adapters in one label and a time as its value, and keeps every
    combination that there ever was: it can be neither drawn nor bounded.
    """
    return _families(_lora_values(lora, adapters)) if lora is not None else []


def _lora_values(lora: LoraState, adapters: LabelCap) -> Iterator[_Value]:
    if lora.max_adapters is not None:
        yield _Value("vllm_observe_lora_max_adapters", lora.max_adapters)
    for state, names in (("running", lora.running), ("waiting", lora.waiting)):
        yield _Value("vllm_observe_lora_adapters", len(names), (("state", state),))
        for adapter in sorted({adapters.label(name) for name in names}):
            yield _Value("vllm_observe_lora_adapter_active", 1, (("adapter", adapter), ("state", state)))


def _families(values: Iterable[_Value]) -> list[Family]:
    samples: dict[str, list[Sample]] = {}
    for name, value, labels in values:
        samples.setdefault(name, []).append(Sample(Series(name, labels), value))
    return [
        Family(name, _TABLE[name].kind, _TABLE[name].help, tuple(told), _TABLE[name].unit)
        for name, told in samples.items()
    ]
