"""Which values Prometheus's operators, functions and aggregations can give, as its documentation has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil, floor, inf, isinf, pi

from vllm_observe.alerts.lint.ranges import ALL, NOT_BELOW_0, NOTHING, Range

__all__ = ["AGGREGATED", "ARITHMETIC", "CALLED", "OF_NOTHING", "SHARE", "is_share"]

#: What a part of a whole is.
SHARE = Range(0.0, 1.0)
_ONE = Range(1.0, 1.0)
_COUNT = Range(1.0, inf)
_CIRCLE = Range(-1.0, 1.0)

#: These give something where there is nothing: of what is not exactly one series ``scalar`` is NaN.
OF_NOTHING = frozenset({"absent", "absent_over_time", "scalar"})


def is_share(values: Range) -> bool:
    """Whether a range is within 0 and 1: no other quantile is among what it is taken of."""
    return values.meet(SHARE) == values


def _same(values: Range) -> Range:
    return ALL if values.empty else values


def _summed(values: Range) -> Range:
    """Sums of one value or more: what lies on one side of 0 stays there, and goes away from it."""
    return Range(values.low if values.low >= 0 else -inf, values.high if values.high <= 0 else inf)


def _grown(values: Range) -> Range:
    """Growth of a counter; of what goes below 0, a fall is no reset, and what comes of it means nothing."""
    return NOT_BELOW_0 if values.low >= 0 else ALL


def _whole(step: Callable[[float], int]) -> Callable[[Range], Range]:
    def rounded(values: Range) -> Range:
        low, high = (number if isinf(number) else float(step(number)) for number in values)
        return Range(low, high)

    return rounded


def _absolute(values: Range) -> Range:
    low, high = sorted(map(abs, values))
    return Range(0.0 if values.low <= 0 <= values.high else low, high)


def _clamped(values: Range, least: Range, most: Range) -> Range:
    if least.low > most.high:  # between bounds that are the wrong way round there is nothing
        return NOTHING
    return Range(max(min(values.low, most.low), least.low), min(max(values.high, least.high), most.high))


def _remainder(left: Range, right: Range) -> Range:
    known = left.low >= 0 and right.low > 0
    return NOT_BELOW_0.where("<", right) if known else ALL


def _each(names: Iterable[str], result: Callable[..., Range]) -> dict[str, Callable[..., Range]]:
    return dict.fromkeys(names, result)


def _always(values: Range) -> Callable[..., Range]:
    return lambda *_: values


#: By the ranges of a function's arguments, texts apart. What is not here may give anything.
CALLED: Mapping[str, Callable[..., Range]] = {
    **_each(("absent", "absent_over_time", "present_over_time"), _always(_ONE)),
    **_each(("rate", "irate", "increase"), _grown),
    **_each(("changes", "resets"), _always(NOT_BELOW_0)),
    **_each(("stddev_over_time", "stdvar_over_time", "mad_over_time"), _always(NOT_BELOW_0)),
    **_each(("time", "timestamp", "sqrt", "exp", "histogram_count"), _always(NOT_BELOW_0)),
    **_each(("sgn", "sin", "cos"), _always(_CIRCLE)),
    **_each(("min_over_time", "max_over_time", "avg_over_time", "last_over_time", "first_over_time"), _same),
    **_each(("sort", "sort_desc", "sort_by_label", "sort_by_label_desc"), _same),
    **_each(("label_replace", "label_join", "vector", "scalar"), _same),
    "count_over_time": _always(_COUNT),
    "sum_over_time": _summed,
    "quantile_over_time": lambda share, values: values if is_share(share) else ALL,
    "histogram_fraction": _always(SHARE),
    "abs": _absolute,
    "floor": _whole(floor),
    "ceil": _whole(ceil),
    "clamp": _clamped,
    "clamp_min": lambda values, least: _clamped(values, least, ALL),
    "clamp_max": lambda values, most: _clamped(values, ALL, most),
    "minute": _always(Range(0.0, 59.0)),
    "hour": _always(Range(0.0, 23.0)),
    "day_of_week": _always(Range(0.0, 6.0)),
    "day_of_month": _always(Range(1.0, 31.0)),
    "day_of_year": _always(Range(1.0, 366.0)),
    "days_in_month": _always(Range(28.0, 31.0)),
    "month": _always(Range(1.0, 12.0)),
    "pi": _always(Range(pi, pi)),
}

#: By the ranges of an aggregation's series and of its parameter.
AGGREGATED: Mapping[str, Callable[[Range, Range], Range]] = {
    **_each(("avg", "min", "max", "topk", "bottomk", "limitk", "limit_ratio"), lambda values, _: values),
    **_each(("count", "count_values"), _always(_COUNT)),
    **_each(("stddev", "stdvar"), _always(NOT_BELOW_0)),
    "group": _always(_ONE),
    "sum": lambda values, _: _summed(values),
    "quantile": lambda values, share: values if is_share(share) else ALL,
}

#: By the ranges of both sides.
ARITHMETIC: Mapping[str, Callable[[Range, Range], Range]] = {
    "+": Range.plus,
    "-": Range.minus,
    "*": Range.times,
    "/": Range.over,
    "%": _remainder,
    "^": lambda base, _: NOT_BELOW_0 if base.low >= 0 else ALL,
    "atan2": _always(Range(-pi, pi)),
}
