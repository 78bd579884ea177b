"""What OpenMetrics asks of a family: the order of its samples, and the names that it takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client.utils import floatToGoString

from vllm_observe.engine.lines import Labels, number
from vllm_observe.errors import Drop
from vllm_observe.model import Kind, Series

__all__ = ["Point", "arrange", "claims"]

#: What OpenMetrics sets aside for a family behind its name there.
_CLAIMED: Mapping[Kind, tuple[str, ...]] = {
    Kind.COUNTER: ("_total", "_created"),
    Kind.SUMMARY: ("_count", "_sum", "_created"),
    Kind.HISTOGRAM: ("_bucket", "_count", "_sum", "_created"),
}
_LE = "le"
_QUANTILE = "quantile"


class Point(NamedTuple):
    """A series with the samples that give its value: their places among all samples of a page."""

    series: Series
    sources: tuple[int, ...]


def claims(name: str, kind: Kind) -> set[str]:
    """Return the names that no other family may have a part in."""
    stem = name.removesuffix("_total") if kind is Kind.COUNTER else name
    return {stem, *(stem + suffix for suffix in _CLAIMED.get(kind, ()))}


def arrange(name: str, kind: Kind, points: Iterable[Point], dropped: Counter[Drop]) -> list[Point]:
    """Bring a family's points into order, and leave out, counted, what can have no place in it.

    The points of one distribution stand together: its buckets or quantiles by their bounds, then its
    count and its sum.
    """
    if kind is Kind.HISTOGRAM:
        label, bounded_name = _LE, f"{name}_bucket"
    elif kind is Kind.SUMMARY:
        label, bounded_name = _QUANTILE, name
    else:
        return list(points)
    groups: dict[frozenset[tuple[str, str]], _Distribution] = {}
    for point in points:
        bounded = point.series.name == bounded_name
        if not bounded and point.series.label(label) is not None:
            dropped[Drop.BAD_VALUE] += 1  # a count or a sum has no bound: whose it is cannot be told
            continue
        labels = tuple(pair for pair in point.series.labels if not (bounded and pair[0] == label))
        group = groups.setdefault(frozenset(labels), _Distribution(name, labels))
        if bounded:
            group.add_bound(point, label, dropped)
        else:
            group.add(point)
    return [
        point
        for group in groups.values()
        for point in (group.histogram(dropped) if kind is Kind.HISTOGRAM else group.points())
    ]


class _Distribution:
    """The points of one histogram or summary."""

    def __init__(self, name: str, labels: Labels) -> None:
        self._labels = labels
        self._bucket, self._count, self._sum = f"{name}_bucket", f"{name}_count", f"{name}_sum"
        self._bounds: dict[float, Point] = {}
        self._others: dict[str, Point] = {}

    def add(self, point: Point) -> None:
        self._others[point.series.name] = point

    def add_bound(self, point: Point, label: str, dropped: Counter[Drop]) -> None:
        bound = number(point.series.label(label) or "")
        if bound is None or math.isnan(bound) or (label == _QUANTILE and not 0 <= bound <= 1):
            dropped[Drop.BAD_VALUE] += 1
        elif bound in self._bounds:
            dropped[Drop.DUPLICATE] += 1
        else:
            # As vLLM's own front end writes it, so that one matcher finds it behind every other too.
            series = _with(point.series, label, floatToGoString(bound))  # type: ignore[no-untyped-call]  # it has none
            self._bounds[bound] = point._replace(series=series)

    def points(self) -> list[Point]:
        ordered = [point for _, point in sorted(self._bounds.items())]
        return ordered + [self._others[name] for name in (self._count, self._sum) if name in self._others]

    def histogram(self, dropped: Counter[Drop]) -> list[Point]:
        """Return the points of a whole histogram, or none."""
        # The count and the bucket for +Inf are one number: each can stand for the other. Without
        # both nothing is whole. OpenMetrics wants a count where there is a sum, and only there.
        count = self._others.pop(self._count, None)
        everything = self._bounds.get(math.inf) or count
        if everything is None:
            dropped[Drop.BAD_VALUE] += len(self._bounds) + len(self._others)
            return []
        if math.inf not in self._bounds:
            labels = tuple(sorted((*self._labels, (_LE, "+Inf"))))
            self._bounds[math.inf] = Point(Series(self._bucket, labels), everything.sources)
        if self._sum in self._others:
            self._others[self._count] = count or Point(Series(self._count, self._labels), everything.sources)
        return self.points()


def _with(series: Series, label: str, value: str) -> Series:
    labels = tuple((name, value if name == label else other) for name, other in series.labels)
    return series if labels == series.labels else Series(series.name, labels)
