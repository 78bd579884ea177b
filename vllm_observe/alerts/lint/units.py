"""What an expression measures: its unit, how that is scaled, and whether it is a share of a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from vllm_observe.alerts.lint.context import Context, Quantity
from vllm_observe.alerts.lint.expression import (
    Aggregation,
    Binary,
    Call,
    Expression,
    Selector,
    Subquery,
    argument,
    constant,
    selectors,
    walk,
)
from vllm_observe.signals import BY_KEY

__all__ = ["RATIO", "quantity"]

RATIO = "ratio"
_OBSERVATIONS = "observations"
#: How many recordings are followed, each made of the next; rules that record each other would never end.
_MOST_RECORDED = 3
#: Functions and aggregations whose result is of the same unit.
_SAME = frozenset(
    {"abs", "ceil", "floor", "round", "clamp", "clamp_min", "clamp_max", "sort", "sort_desc", "delta"}
    | {"sort_by_label", "sort_by_label_desc", "idelta", "double_exponential_smoothing"}
    | {"increase", "predict_linear", "label_replace", "label_join"}
    | {f"{how}_over_time" for how in ("avg", "min", "max", "sum", "last", "first", "quantile")}
    | {"sum", "avg", "min", "max", "topk", "bottomk", "quantile"}
)
#: What these give can lie beyond what there is: a share of more than 1.
_BEYOND = frozenset({"predict_linear", "double_exponential_smoothing", "sum_over_time"})
_PER_SECOND = frozenset({"rate", "irate", "deriv"})
#: Counters that count a part of what others count.
_PART_OF = {
    BY_KEY[part].name: BY_KEY[whole].name
    for part, whole in (
        ("prefix_hits", "prefix_queries"),
        ("external_prefix_hits", "external_prefix_queries"),
        ("mm_hits", "mm_queries"),
        ("accepted_tokens", "draft_tokens"),
    )
} | {"vllm_observe_log_unparsed_total": "vllm_observe_log_lines_total"}

#: Gauges that another one bounds.
_AT_MOST = {frozenset({BY_KEY["running"].name}): frozenset({"vllm_observe_max_num_seqs"})}


def quantity(expression: Expression, context: Context) -> Quantity | None:
    """Return what an expression measures; ``None`` where nobody can tell."""
    if isinstance(expression, Selector):
        return _of_selector(expression, context)
    if isinstance(expression, Subquery):
        return quantity(expression.of, context)
    if isinstance(expression, Aggregation):
        found = quantity(expression.of, context) if expression.operator in _SAME else None
        return replace(found, share=found.share and expression.operator != "sum") if found else None
    if isinstance(expression, Call):
        return _of_call(expression, context)
    if isinstance(expression, Binary):
        return _of_binary(expression, context)
    return None


def _of_selector(selector: Selector, context: Context) -> Quantity | None:
    recorded = context.recordings.get(selector.name)
    if recorded is not None:
        return recorded.quantity
    metric = context.metric(selector.name)
    if metric is None:
        return None
    unit = _OBSERVATIONS if metric.part in {"bucket", "count"} else metric.unit
    return Quantity(unit, share=unit == RATIO, families=frozenset({metric.family}))


def _of_call(call: Call, context: Context) -> Quantity | None:
    if call.function == "histogram_quantile":
        metrics = [context.metric(part.name) for part in selectors(call.arguments[1])]
        units = {metric.unit for metric in metrics if metric}
        families = frozenset(metric.family for metric in metrics if metric)
        return Quantity(units.pop(), families=families) if len(units) == 1 else None
    inner = argument(call)
    found = quantity(inner, context) if inner is not None else None
    if found is None or call.function in _SAME:
        return replace(found, share=found.share and call.function not in _BEYOND) if found else None
    return replace(found, unit=f"{found.unit}/s", share=False) if call.function in _PER_SECOND else None


def _of_binary(binary: Binary, context: Context) -> Quantity | None:
    left, right = quantity(binary.left, context), quantity(binary.right, context)
    if binary.operator in {"and", "or", "unless"} or (binary.compares and not binary.as_bool):
        return left or right
    if binary.operator == "*":
        return _scaled(left, constant(binary.right)) or _scaled(right, constant(binary.left))
    if binary.operator in {"+", "-"}:
        return _sum(binary, left, right)
    if binary.operator == "/":
        divisor = constant(binary.right)
        if divisor is not None:
            return _scaled(left, 1 / divisor if divisor else None)
        if left and right:
            return _quotient(left, right, share=_is_part(binary, context) or _is_bounded(binary, left, right))
    return None


def _scaled(found: Quantity | None, factor: float | None) -> Quantity | None:
    return replace(found, scale=found.scale * factor) if found and factor and factor > 0 else None


def _sum(binary: Binary, left: Quantity | None, right: Quantity | None) -> Quantity | None:
    if left is None or right is None:
        # 1 - share is the rest of the whole.
        rest = right if constant(binary.left) is not None else left
        return rest if rest and rest.share else None
    if (left.unit, left.scale) != (right.unit, right.scale):
        return None
    share = left.share and right.share and binary.operator == "-"
    return replace(left, share=share, families=left.families | right.families)


def _quotient(left: Quantity, right: Quantity, *, share: bool) -> Quantity | None:
    families, scale = left.families | right.families, left.scale / right.scale
    unit = left.unit.removesuffix("/s")
    if unit not in {_OBSERVATIONS, right.unit} and right.unit.startswith(_OBSERVATIONS):
        return Quantity(unit, scale, families=families)  # a sum over its count is a mean
    # Lines that are no records are counted beside all lines: what they count has no unit in common.
    return (
        Quantity(RATIO, scale, share=share, families=families) if share or left.unit == right.unit else None
    )


def _is_part(binary: Binary, context: Context) -> bool:
    """Whether what stands above counts a part of what stands below, over the same time."""
    aggregations = [part for part, _ in walk(binary) if isinstance(part, Aggregation)]
    if any(aggregation.operator != "sum" for aggregation in aggregations):
        return False
    above = [part for part in _sources(binary.left, context) if not _only_filters(part.of, context)]
    below = [*_sources(binary.right, context)]
    return bool(above) and all(any(_counts_part(one, other, context) for other in below) for one in above)


def _is_bounded(binary: Binary, above: Quantity, below: Quantity) -> bool:
    """Whether what stands below bounds what stands above, taken together in the same way on both sides."""
    parts = [part for part, _ in walk(binary)]
    ways = {part.operator for part in parts if isinstance(part, Aggregation)}
    guessed = any(isinstance(part, Call) and part.function in _BEYOND for part in parts)
    bounded = _AT_MOST.get(above.families) == below.families
    return bounded and len(ways) < 2 and not guessed  # noqa: PLR2004


class _Source(NamedTuple):
    """A selector that a value is made of, with the window and the offset of each that leads to it, its own last."""

    of: Selector
    spans: tuple[tuple[float | None, float], ...]


def _sources(
    expression: Expression, context: Context, spans: tuple[tuple[float | None, float], ...] = ()
) -> Iterator[_Source]:
    """Give what an expression is made of, in place of what is recorded of it."""
    for part in selectors(expression):
        inner = (*spans, (part.window, part.offset))
        recorded = context.recordings.get(part.name)
        if recorded is None or len(inner) > _MOST_RECORDED:
            yield _Source(part, inner)
            continue
        for made_of in recorded.made_of:
            yield from _sources(made_of, context, inner)


def _counts_part(one: _Source, other: _Source, context: Context) -> bool:
    metric, whole = context.metric(one.of.name), context.metric(other.of.name)
    if metric is None or whole is None or not (metric.counts and whole.counts):
        return False
    if whole.family not in {metric.family, _PART_OF.get(metric.family)} or whole.part == "sum" != metric.part:
        return False
    narrower = {matcher for matcher in other.of.matchers if matcher.operator in {"=", "=~"}}
    return narrower <= set(one.of.matchers) and one.spans == other.spans


def _only_filters(selector: Selector, context: Context) -> bool:
    """Whether it stands there for its labels, such as an info behind ``and on``."""
    metric = context.metric(selector.name)
    return metric is not None and not metric.counts
