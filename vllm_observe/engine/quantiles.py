"""Quantiles from histogram buckets, honest about what the buckets cannot tell.

A quantile inside the first bucket is only known to lie below that bucket's bound: interpolating
from zero would print a figure that nothing measured (a prefill of 7 ms shown as 150). The same holds
above the last finite bound.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from vllm_observe.model import Family, Series

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

    def plus(self, other: Distribution) -> Distribution:
        """Both together; they have the same bounds."""
        counts = tuple(map(operator.add, self.cumulative, other.cumulative))
        return Distribution(self.bounds, counts, self.total + other.total, self.count + other.count)

    def since(self, earlier: Distribution) -> Distribution | None:
        """What was observed since an earlier look; ``None`` after a restart or with other buckets."""
        if self.bounds != earlier.bounds or self.count < earlier.count:
            return None
        counts = tuple(now - then for now, then in zip(self.cumulative, earlier.cumulative, strict=True))
        if any(later < sooner for sooner, later in pairwise((0.0, *counts))):
            return None
        return Distribution(self.bounds, counts, self.total - earlier.total, self.count - earlier.count)


def distribution(families: Iterable[Family], name: str) -> Distribution | None:
    """Add up a histogram family over its engines.

    Args:
        families: an exposition under today's names.
        name: the family's name.

    Returns:
        The sum of all that share one set of bounds; of several sets that with the most observations,
        since they cannot be added. ``None`` where the family is absent.
    """
    family = next((family for family in families if family.name == name), None)
    if family is None:
        return None
    parts: dict[frozenset[tuple[str, str]], _Part] = {}
    for series, value, _ in family.samples:
        labels = frozenset(pair for pair in series.labels if pair[0] != "le")
        parts.setdefault(labels, _Part()).add(series, value)
    sums: dict[tuple[float, ...], Distribution] = {}
    for seen in (part.distribution() for part in parts.values()):
        before = sums.get(seen.bounds)
        sums[seen.bounds] = seen if before is None else before.plus(seen)
    return max(sums.values(), key=lambda seen: seen.count, default=None)


class _Part:
    """The samples of one histogram."""

    def __init__(self) -> None:
        self._buckets: dict[float, float] = {}
        self._total = self._count = 0.0

    def add(self, series: Series, value: float) -> None:
        if series.name.endswith("_bucket"):
            bound = _number(series.label("le"))
            if bound is not None:
                self._buckets[bound] = value
        elif series.name.endswith("_sum"):
            self._total = value
        elif series.name.endswith("_count"):
            self._count = value

    def distribution(self) -> Distribution:
        bounds = tuple(sorted(self._buckets))
        return Distribution(bounds, tuple(map(self._buckets.__getitem__, bounds)), self._total, self._count)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
