"""The PromQL that boards are made of: one small vocabulary, in which the usual mistakes cannot be said.

A :class:`Vector` is what a selector gives: one series for every process and label. Only aggregated, as
an :class:`Expr`, can it be drawn or divided, so that every panel says which labels it keeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from vllm_observe.dashboards.metrics import Metric, own
from vllm_observe.model import Kind, ServiceClass

__all__ = [
    "ENGINE",
    "MODEL",
    "OF_CLASS",
    "SERVER",
    "Expr",
    "Vector",
    "bottom",
    "buckets",
    "but_not",
    "calculate",
    "changes",
    "chosen",
    "complement",
    "count_by",
    "first_of",
    "increase",
    "max_by",
    "mean",
    "min_by",
    "newest",
    "of_class",
    "otherwise",
    "quantile",
    "quantile_of",
    "rate",
    "ratio",
    "relabel",
    "rounded",
    "select",
    "span",
    "startup",
    "sum_by",
    "top",
    "total",
    "where",
    "whole_total",
    "worst",
]

#: What tells one server, one model on it, and one engine of it from all others.
SERVER = ("cluster", "namespace", "job", "instance")
MODEL = (*SERVER, "model_name")
ENGINE = (*MODEL, "engine")

#: Long enough for four scrapes, and for the resolution of the screen.
_WINDOW = "$__rate_interval"

#: A name before all that a series can have.
_FIRST = "_"

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))

_ON_SERVER = f"on ({', '.join(SERVER)})"

#: Stand around the choices of an expression and between them, until it is known which can exist.
_OPEN, _NEXT, _CLOSE = "\x02", "\x1f", "\x03"
_CHOICES = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")

_Ways = frozenset[frozenset[str]]
_COUNTED = frozenset({Kind.COUNTER, Kind.HISTOGRAM, Kind.SUMMARY})


def span(seconds: int) -> str:
    """Write a duration as Prometheus does: ``5m`` for 300."""
    return next(f"{seconds // size}{unit}" for size, unit in _UNITS if seconds % size == 0)


def _selector(metric: Metric, matchers: tuple[str, ...], part: str = "") -> str:
    picked = (f'{label}=~"${variable}"' for label, variable in metric.scope.items())
    return f"{metric.name}{part}{{{','.join((*picked, *matchers))}}}"


#: Keeps the servers of the classes that are picked. Only a sidecar tells its server's class; a vLLM that
#: is scraped without one has none and stays.
OF_CLASS = f" unless {_ON_SERVER} " + _selector(own("target_info"), ('service_class!~"$service_class"',))


@dataclass(frozen=True)
class Vector:
    """Series as they are stored, one for every process: to be aggregated.

    Attributes:
        text: the PromQL.
        ways: sets of metric names; where all of one set exist, so does an answer.
        of_server: whether the service classes that are picked apply to it.
    """

    text: str
    ways: _Ways
    of_server: bool = True

    @property
    def inner(self) -> str:
        """The PromQL to stand within an aggregation's parentheses."""
        return self.text + OF_CLASS if self.of_server else self.text


@dataclass(frozen=True)
class Expr:
    """PromQL whose labels are stated.

    Attributes:
        text: the PromQL; :func:`chosen` makes of its choices what can be asked.
        ways: sets of metric names; where all of one set exist, so does an answer.
        compound: whether it needs parentheses within a larger one.
    """

    text: str
    ways: _Ways
    compound: bool = False

    @property
    def inner(self) -> str:
        """The PromQL to stand within an aggregation's parentheses."""
        return self.text

    @property
    def term(self) -> str:
        """The PromQL to stand beside an operator."""
        return f"({self.text})" if self.compound else self.text


def _needs(metric: Metric) -> _Ways:
    return frozenset({frozenset({metric.name})})


def select(metric: Metric, *matchers: str, offset: str = "") -> Vector:
    """Return a gauge's series, or a counter's as they stand; as they were, if an ``offset`` is given."""
    past = f" offset {offset}" if offset else ""
    return Vector(_selector(metric, matchers) + past, _needs(metric), metric.of_server)


def _over_time(function: str, metric: Metric, matchers: tuple[str, ...], window: str, part: str) -> Vector:
    if metric.kind not in _COUNTED or (metric.kind is Kind.COUNTER) == bool(part):
        raise ValueError(
            f"{metric.name} is a {metric.kind.value}: it has no {function} of its {part or 'value'}"
        )
    text = f"{function}({_selector(metric, matchers, part)}[{window}])"
    return Vector(text, _needs(metric), metric.of_server)


def rate(metric: Metric, *matchers: str, part: str = "", window: str = _WINDOW) -> Vector:
    """Return how much a counter grew, a second; ``part`` is a histogram's ``_sum``, ``_count`` or ``_bucket``.

    Raises:
        ValueError: a gauge has no rate, and a histogram only its parts'.
    """
    return _over_time("rate", metric, matchers, window, part)


def increase(metric: Metric, *matchers: str, part: str = "", window: str = _WINDOW) -> Vector:
    """Return how much a counter grew within a window.

    Raises:
        ValueError: as :func:`rate`.
    """
    return _over_time("increase", metric, matchers, window, part)


def changes(metric: Metric, *matchers: str, window: str = _WINDOW) -> Vector:
    """Return how often a gauge changed its value within a window."""
    return Vector(f"changes({_selector(metric, matchers)}[{window}])", _needs(metric), metric.of_server)


def of_class(vector: Vector, service_class: ServiceClass) -> Vector:
    """Keep one class's servers. A server that no sidecar speaks for counts as interactive."""
    batch = select(own("target_info"), f'service_class="{ServiceClass.BATCH.value}"')
    if service_class is ServiceClass.BATCH:
        return Vector(f"{vector.text} and {_ON_SERVER} {batch.text}", _both(vector, batch), vector.of_server)
    return Vector(f"{vector.text} unless {_ON_SERVER} {batch.text}", vector.ways, vector.of_server)


def where(vector: Vector, comparison: str) -> Vector:
    """Keep the series that compare so, such as ``== 1``; with ``bool`` in it, say 1 or 0 of each."""
    return Vector(f"{vector.text} {comparison}", vector.ways, vector.of_server)


def _aggregate(operator: str, of: Vector | Expr, labels: tuple[str, ...]) -> Expr:
    by = f" by ({', '.join(labels)}) " if labels else ""
    return Expr(f"{operator}{by}({of.inner})", of.ways)


def sum_by(of: Vector | Expr, *labels: str) -> Expr:
    """Add up, for each value of the labels."""
    return _aggregate("sum", of, labels)


def max_by(of: Vector | Expr, *labels: str) -> Expr:
    """Take the largest, for each value of the labels."""
    return _aggregate("max", of, labels)


def min_by(of: Vector | Expr, *labels: str) -> Expr:
    """Take the smallest, for each value of the labels."""
    return _aggregate("min", of, labels)


def count_by(of: Vector | Expr, *labels: str) -> Expr:
    """Count the series, for each value of the labels."""
    return _aggregate("count", of, labels)


def total(gauge: Metric, *labels: str, keep: tuple[str, ...] = ()) -> Expr:
    """Add up a gauge over engines, each once however many processes expose it; ``keep`` are its other labels."""
    return sum_by(max_by(select(gauge), *ENGINE, *keep), *labels)


def _both(left: Vector | Expr, right: Vector | Expr) -> _Ways:
    return frozenset(a | b for a, b in product(left.ways, right.ways))


def calculate(left: Expr, operator: str, right: Expr | float) -> Expr:
    """Return ``left operator right``; ``operator`` may hold a matching, such as ``* on (instance)``."""
    if not isinstance(right, Expr):
        return Expr(f"{left.term} {operator} {right:g}", left.ways, compound=True)
    return Expr(f"{left.term} {operator} {right.term}", _both(left, right), compound=True)


def complement(share: Expr) -> Expr:
    """Return what is left of 1."""
    return Expr(f"1 - {share.term}", share.ways, compound=True)


def ratio(part: Expr, whole: Expr, *, matching: str = "") -> Expr:
    """Divide; where the whole is 0 there is no ratio, and nothing is drawn."""
    operator = f"/ {matching}" if matching else "/"
    return calculate(part, operator, Expr(f"{whole.term} > 0", whole.ways, compound=True))


def mean(histogram: Metric, *labels: str, matchers: tuple[str, ...] = ()) -> Expr:
    """Return the mean of what a histogram observed."""
    return ratio(
        sum_by(rate(histogram, *matchers, part="_sum"), *labels),
        sum_by(rate(histogram, *matchers, part="_count"), *labels),
    )


def _added_up(grown: Vector, *labels: str) -> Expr:
    """Add up buckets over servers: those whose bound all of them have.

    Servers differ in their bounds during an upgrade, or by their longest prompt. What is added up over a
    bound of only some of them is too little beside its neighbours, and no count of what lies below it.
    """
    series = count_by(grown, "le", *labels)
    of_all = calculate(series, f"== on ({', '.join(labels)}) group_left ()", max_by(series, *labels))
    return calculate(sum_by(grown, "le", *labels), f"and on ({', '.join(('le', *labels))})", of_all)


def buckets(histogram: Metric, *labels: str) -> Expr:
    """Return how many observations fell into each bucket, for a heatmap."""
    return _added_up(increase(histogram, part="_bucket"), *labels)


def quantile(share: float, histogram: Metric, *labels: str) -> Expr:
    """Return a quantile of all that the histograms with the same labels observed together."""
    return quantile_of(share, _added_up(rate(histogram, part="_bucket"), *labels))


def quantile_of(share: float, rates: Expr) -> Expr:
    """Return a quantile of buckets' rates that are added up already, their ``le`` kept."""
    return Expr(f"histogram_quantile({share:g}, {rates.text})", rates.ways)


def first_of(*choices: Expr, on: tuple[str, ...] = ()) -> Expr:
    """Return the first that is there, for each series, or for each value of the labels ``on``."""
    operator = f" or on ({', '.join(on)}) " if on else " or "
    return Expr(
        _OPEN + f"{_NEXT}{operator}{_NEXT}".join(choice.term for choice in choices) + _CLOSE,
        frozenset().union(*(choice.ways for choice in choices)),
        compound=True,
    )


def chosen(promql: str, can_exist: Callable[[str], bool]) -> str:
    """Return PromQL with those of its choices that can exist, or with all where none can.

    Args:
        promql: the text of an expression.
        can_exist: says so of the text of a choice.
    """

    def choose(found: re.Match[str]) -> str:
        first, *more = found[1].split(_NEXT)
        operator, choices = more[0] if more else "", [first, *more[1::2]]
        return operator.join(list(filter(can_exist, choices)) or choices)

    while _OPEN in promql:
        promql = _CHOICES.sub(choose, promql)  # the innermost ones
    return promql


def but_not(wanted: Expr, unwanted: Expr, *, on: tuple[str, ...]) -> Expr:
    """Keep what has no like in the other, as far as the labels ``on`` tell."""
    return Expr(f"{wanted.term} unless on ({', '.join(on)}) {unwanted.term}", wanted.ways, compound=True)


def whole_total(gauge: Metric, *labels: str, beside: Metric) -> Expr:
    """Add up a gauge as ``total`` does, but nothing where an engine that has the other gauge lacks it.

    A part of a sum looks like the sum.
    """
    engines = (max_by(select(each), *ENGINE) for each in (beside, gauge))
    lacking = count_by(but_not(*engines, on=ENGINE), *labels)
    return but_not(total(gauge, *labels), lacking, on=labels)


def relabel(of: Expr, label: str, value: str) -> Expr:
    """Give all series one value of a label."""
    return Expr(f'label_replace({of.text}, "{label}", "{value}", "", "")', of.ways)


def otherwise(of: Expr, label: str, value: str) -> Expr:
    """Give the series without a value of a label this one, so that a legend can name them."""
    return Expr(f'label_replace({of.text}, "{label}", "{value}", "{label}", "")', of.ways)


def top(count: int, of: Expr) -> Expr:
    """Keep the largest, so that a panel stays readable with hundreds of series."""
    return Expr(f"topk({count}, {of.text})", of.ways)


def bottom(count: int, of: Expr) -> Expr:
    """Keep the smallest, where those are the ones to look at."""
    return Expr(f"bottomk({count}, {of.text})", of.ways)


def rounded(of: Expr, to: float) -> Expr:
    """Round to a multiple: a difference of two rates that should be 0 is a little more or less than that."""
    return Expr(f"round({of.text}, {to:g})", of.ways)


def worst(count: int, of: Expr, *labels: str, lowest: bool = False) -> Expr:
    """Keep, of series with these labels, those with the largest (or smallest) value in all the time shown.

    They are the same all along: ``topk`` chooses anew at each moment, and would tear a timeline. They come
    in the order of the labels that are given: a Prometheus sorts series by their labels' names, which would
    put the ranks of a server apart. Hence a label that is the first of all.
    """
    choose, extreme = ("bottomk", "min") if lowest else ("topk", "max")
    chosen_ones = f"{choose}({count}, {extreme}_over_time(({of.text})[$__range:1m] @ end()))"
    kept = f"{of.term} and on ({', '.join(labels)}) {chosen_ones}"
    names = ", ".join(f'"{label}"' for label in labels)
    return Expr(f'label_join({kept}, "{_FIRST}", " ", {names})', of.ways)


def newest(of: Expr, *labels: str) -> Expr:
    """Keep the one with the largest value for each value of the labels: the latest, where values are times."""
    return Expr(f"topk by ({', '.join(labels)}) (1, {of.text})", of.ways)


def startup(started: Metric) -> Expr:
    """Return each server's age at its first scrape, in seconds, if it started within the range shown."""
    moment = _selector(started, ())
    age = f"time() - {moment}"
    return Expr(
        f"min by ({', '.join(SERVER)}) (min_over_time(({age})[$__range:30s])"
        f" and {_ON_SERVER} {age} < $__range_s{OF_CLASS})",
        _needs(started),
    )
