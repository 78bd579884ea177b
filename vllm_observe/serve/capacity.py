"""How many tokens each engine's KV cache holds, as a server's page tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vllm_observe.engine.limits import kv_capacity
from vllm_observe.model import Family
from vllm_observe.signals import BY_KEY

__all__ = ["kv_capacities"]

_CACHE_CONFIG = BY_KEY["cache_config"].name


def kv_capacities(families: Iterable[Family]) -> Mapping[str, int]:
    """Return the tokens that each engine's KV cache holds, by the engine's rank; unknown ones are left out."""
    told = [
        dict(sample.series.labels)
        for family in families
        if family.name == _CACHE_CONFIG
        for sample in family.samples
    ]
    capacities = {labels.get("engine", ""): kv_capacity(labels, engines=len(told)) for labels in told}
    return {engine: tokens for engine, tokens in capacities.items() if tokens is not None}
