"""Our own counters, histograms and gauges, built from the table of signals.py.

Counters and histograms are prometheus_client's, in a registry of their own. What it raises on is
settled here, so that no record can stop the loop that counts it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, values
from prometheus_client.metrics import MetricWrapperBase

from vllm_observe.errors import ConfigError
from vllm_observe.model import Exemplar, Family, Kind, Sample, Series
from vllm_observe.signals import OWN, OwnMetric

__all__ = ["Counter", "Gauge", "Histogram", "Instruments"]

_Labels = tuple[tuple[str, str], ...]

#: From here on a float no longer counts by ones: a single such amount would freeze a counter.
_TOO_LARGE = 2.0**53


class Counter:
    """One counter of one label set."""

    __slots__ = ("_child", "_refused", "_total")

    def __init__(self, child: prometheus_client.Counter, refused: prometheus_client.Counter) -> None:
        self._child = child
        self._refused = refused
        self._total = 0.0

    def catch_up(self, total: float) -> None:
        """Add what a total that a part keeps itself has gained since the last call."""
        self.inc(total - self._total)
        self._total = total

    def inc(self, amount: float = 1) -> None:
        """Add an amount; one that is negative, not finite or beyond any count is dropped and counted."""
        if 0 <= amount < _TOO_LARGE:
            self._child.inc(amount)
        else:
            self._refused.inc()


class Histogram:
    """One histogram of one label set."""

    __slots__ = ("_child", "_refused")

    def __init__(self, child: prometheus_client.Histogram, refused: prometheus_client.Counter) -> None:
        self._child = child
        self._refused = refused

    def observe(self, value: float, *, exemplar: Mapping[str, str] | None = None) -> None:
        """Count a value in its bucket; one that is negative or not finite is dropped and counted.

        Args:
            value: in the unit of the table's row.
            exemplar: labels as ``exemplar_labels`` makes them.
        """
        if 0 <= value < _TOO_LARGE:
            self._child.observe(value, dict(exemplar) if exemplar else None)
        else:
            self._refused.inc()


class Gauge:
    """One gauge of one label set. It is absent until it is set."""

    __slots__ = ("_labels", "_set")

    def __init__(self, set_: dict[_Labels, float], labels: _Labels) -> None:
        self._set = set_
        self._labels = labels

    def set(self, value: float | None) -> None:
        """Set the value. ``None``, and what is not finite, takes the gauge away: absent is not 0."""
        if value is None or not math.isfinite(value):
            self._set.pop(self._labels, None)
        else:
            self._set[self._labels] = value


class Instruments:
    """Every metric of the table that is counted, observed or set.

    A counter or a histogram exists at 0 as soon as its label values are known: from the start where
    the table lists them, else from ``foresee`` on. A series that is first seen at 1 has no increase
    that a ``rate()`` could see. So foresee early: where no scrape falls between a series' 0 and its
    1, that one is lost on a rate all the same.

    Children are made once and kept, so the callers bound the label values. To ask for a name or a
    label that the table does not have is a fault of the caller: KeyError or ValueError.

    Raises:
        ConfigError: the environment makes prometheus_client write into vLLM's own files.
    """

    def __init__(self, table: Iterable[OwnMetric] = OWN) -> None:
        _refuse_shared_files()
        registry = CollectorRegistry()
        self._table = {metric.name: metric for metric in table}
        self._counters = {
            metric.name: prometheus_client.Counter(metric.name, metric.help, metric.labels, registry=registry)
            for metric in self._table.values()
            if metric.kind is Kind.COUNTER
        }
        self._histograms = {
            metric.name: prometheus_client.Histogram(
                metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=registry
            )
            for metric in self._table.values()
            if metric.kind is Kind.HISTOGRAM
        }
        self._gauges: dict[str, dict[_Labels, float]] = {
            metric.name: {} for metric in self._table.values() if metric.kind is Kind.GAUGE
        }
        self._refused = self._counters["vllm_observe_dropped_total"].labels("bad_value")
        self._made_counters: dict[tuple[object, ...], Counter] = {}
        self._made_histograms: dict[tuple[object, ...], Histogram] = {}
        self._series: dict[tuple[object, ...], Series] = {}
        self.foresee()

    def counter(self, name: str, **labels: str) -> Counter:
        """Return a counter, by the name of its row and all its labels."""
        key = (name, *labels.items())
        made = self._made_counters.get(key)
        if made is None:
            made = Counter(_child(self._counters[name], self._checked(name, labels)), self._refused)
            self._made_counters[key] = made
        return made

    def histogram(self, name: str, **labels: str) -> Histogram:
        """Return a histogram, by the name of its row and all its labels."""
        key = (name, *labels.items())
        made = self._made_histograms.get(key)
        if made is None:
            made = Histogram(_child(self._histograms[name], self._checked(name, labels)), self._refused)
            self._made_histograms[key] = made
        return made

    def gauge(self, name: str, **labels: str) -> Gauge:
        """Return a gauge, by the name of its row and all its labels."""
        return Gauge(self._gauges[name], tuple(self._checked(name, labels).items()))

    def foresee(self, **labels: str) -> None:
        """Make every counter and histogram exist whose labels are all given or known to the table."""
        for metric in self._table.values():
            choices = [
                (labels[name],) if name in labels else metric.known.get(name, ()) for name in metric.labels
            ]
            for chosen in product(*choices):
                child = dict(zip(metric.labels, chosen, strict=True))
                if metric.kind is Kind.COUNTER:
                    self.counter(metric.name, **child)
                elif metric.kind is Kind.HISTOGRAM:
                    self.histogram(metric.name, **child)

    def families(self) -> list[Family]:
        """Return what there is now, in the table's order; a family without a sample is left out."""
        families = [
            Family(metric.name, metric.kind, metric.help, self._samples(metric.name), metric.unit)
            for metric in self._table.values()
        ]
        return [family for family in families if family.samples]

    def _checked(self, name: str, given: Mapping[str, str]) -> dict[str, str]:
        """The labels in the table's order, as text that UTF-8 can hold."""
        names = self._table[name].labels
        if set(given) != set(names):
            raise ValueError(f"{name} has the labels {names}")
        # str.__str__: an enum's member counts as its value.
        return {label: str.__str__(given[label]).encode("utf-8", "replace").decode() for label in names}

    def _samples(self, name: str) -> list[Sample]:
        if name in self._gauges:
            gauges = self._gauges[name].copy()  # another thread may set one meanwhile
            return [Sample(self._interned(name, labels), value) for labels, value in gauges.items()]
        collector = self._counters.get(name) or self._histograms[name]
        return [
            Sample(
                self._interned(told.name, tuple(told.labels.items())), told.value, _exemplar(told.exemplar)
            )
            for metric in collector.collect()
            for told in metric.samples
            if not told.name.endswith("_created")
        ]

    def _interned(self, name: str, labels: _Labels) -> Series:
        series = self._series.get((name, labels))
        if series is None:
            series = self._series[name, labels] = Series(name, labels)
        return series


def _refuse_shared_files() -> None:
    if getattr(values.ValueClass, "_multiprocess", False):
        raise ConfigError(
            "PROMETHEUS_MULTIPROC_DIR is vLLM's: with it this program would write into vLLM's own metrics; "
            "start it without the variable"
        )


_Metric = TypeVar("_Metric", bound=MetricWrapperBase)


def _child(metric: _Metric, labels: Mapping[str, str]) -> _Metric:
    return metric.labels(**labels) if labels else metric


def _exemplar(told: prometheus_client.samples.Exemplar | None) -> Exemplar | None:
    if told is None:
        return None
    timestamp = None if told.timestamp is None else float(told.timestamp)
    return Exemplar(tuple(told.labels.items()), told.value, timestamp)
