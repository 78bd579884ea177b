"""Quantiles from histogram buckets, honest about what the buckets cannot tell.

A quantile inside the first bucket is only known to lie below that bucket's bound: interpolating
from zero would print a figure that nothing measured (a prefill of 7 ms shown as 150). The same holds
above the last finite bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from vllm_observe.model import Family

__all__ = ["Distribution", "Quantile", "distribution"]


class Quantile(msgspec.Struct, frozen=True):
    """One quantile. With ``bound`` set the value lies below or above it and is not known closer."""

    value: float
    bound: str | None = None  # "below", "above" or None


class Distribution(msgspec.Struct, frozen=True):
    """Observations by bucket: upper bounds with the counts up to each, the sum and the count."""

    bounds: tuple[float, ...]
    cumulative: tuple[float, ...]
    total: float
    count: float

    @property
    def mean(self) -> float | None:
        """The mean observation; ``None`` where there is none."""
        return self.total / self.count if self.count > 0 else None

    def quantile(self, q: float) -> Quantile | None:
        """The q-quantile, 0 < q <= 1, interpolated within its bucket; ``None`` without observations."""
        if self.count <= 0 or not self.bounds:
            return None
        rank = q * self.cumulative[-1]
        at = next((i for i, reached in enumerate(self.cumulative) if reached >= rank), len(self.bounds) - 1)
        upper = self.bounds[at]
        if at == 0:
            return Quantile(upper, "below")
        lower, before = self.bounds[at - 1], self.cumulative[at - 1]
        if math.isinf(upper):
            return Quantile(lower, "above")
        inside = self.cumulative[at] - before
        share = (rank - before) / inside if inside > 0 else 1.0
        return Quantile(lower + (upper - lower) * share)

    def since(self, earlier: Distribution) -> Distribution | None:
        """What was observed since an earlier look; ``None`` after a restart or with other buckets."""
        if self.bounds != earlier.bounds or self.count < earlier.count:
            return None
        counts = tuple(now - then for now, then in zip(self.cumulative, earlier.cumulative, strict=True))
        if any(later < sooner for sooner, later in pairwise((0.0, *counts))):
            return None
        return Distribution(self.bounds, counts, self.total - earlier.total, self.count - earlier.count)


def distribution(families: Iterable[Family], name: str) -> Distribution | None:
    """Add up a histogram family over all its series.

    Args:
        families: an exposition under today's names.
        name: the family's name.

    Returns:
        The sum of all its series that share one set of bounds; ``None`` where the family is absent.
    """
    family = next((family for family in families if family.name == name), None)
    if family is None:
        return None
    by_bound: dict[float, float] = {}
    total = count = 0.0
    for series, value, _ in family.samples:
        if series.name.endswith("_bucket"):
            bound = _number(series.label("le"))
            if bound is not None:
                by_bound[bound] = by_bound.get(bound, 0.0) + value
        elif series.name.endswith("_sum"):
            total += value
        elif series.name.endswith("_count"):
            count += value
    bounds: Sequence[float] = sorted(by_bound)
    return Distribution(tuple(bounds), tuple(by_bound[bound] for bound in bounds), total, count)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
