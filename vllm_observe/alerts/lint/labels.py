"""Which labels the series of an expression have, as far as that is certain."""

from __future__ import annotations

from dataclasses import replace

from vllm_observe.alerts.lint.context import Context, LabelSet
from vllm_observe.alerts.lint.expression import (
    Aggregation,
    Binary,
    Call,
    Expression,
    Matching,
    Selector,
    Subquery,
    Text,
    argument,
    has_series,
)
from vllm_observe.alerts.lint.tables import EXPOSED_LABELS

__all__ = ["labels_of"]

#: What Prometheus puts on every series of a target.
_OF_TARGETS = frozenset({"job", "instance"})
#: Series that Prometheus makes of each scrape: they have their target's labels, and none of its page's.
_OF_SCRAPES = frozenset(
    {"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling"}
    | {"scrape_series_added", "scrape_timeout_seconds", "scrape_sample_limit", "scrape_body_size_bytes"}
)
#: Aggregations that pick series and leave them as they are.
_PICKS = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
_ABSENCE = frozenset({"absent", "absent_over_time"})
_WITHOUT_LABELS = frozenset({"scalar", "vector"})
#: Functions of a histogram's buckets, which become one.
_OF_BUCKETS = frozenset({"histogram_quantile", "histogram_quantiles", "histogram_fraction"})

_NONE = LabelSet(closed=True)


def labels_of(expression: Expression, context: Context) -> LabelSet:
    """Return the labels of an expression's series."""
    if isinstance(expression, Selector):
        return _of_selector(expression, context)
    if isinstance(expression, Subquery):
        return labels_of(expression.of, context)
    if isinstance(expression, Aggregation):
        return _of_aggregation(expression, context)
    if isinstance(expression, Call):
        return _of_call(expression, context)
    if isinstance(expression, Binary):
        return _of_binary(expression, context)
    return _NONE


def _of_selector(selector: Selector, context: Context) -> LabelSet:
    equal = frozenset(m.label for m in selector.matchers if m.operator == "=" and m.value)
    missing = frozenset(m.label for m in selector.matchers if m.operator == "=" and not m.value)
    recorded = context.recordings.get(selector.name)
    if recorded is not None:
        found = recorded.labels
    else:
        metric = context.metric(selector.name)
        unknown = frozenset[str]() if selector.name in _OF_SCRAPES else None
        labels = metric.labels if metric else unknown
        lacking = EXPOSED_LABELS - labels if labels is not None else frozenset[str]()
        if metric is not None and metric.part in {"sum", "count"}:
            lacking |= {"le"}
        found = LabelSet(_OF_TARGETS | (labels or frozenset()), names=lacking - _OF_TARGETS)
    found = replace(found, certain=found.certain | equal, pinned=found.pinned | equal).adding(equal)
    return found.without(missing) if missing else found


def _of_aggregation(aggregation: Aggregation, context: Context) -> LabelSet:
    found = labels_of(aggregation.of, context)
    if aggregation.operator in _PICKS:
        return found
    named = frozenset(aggregation.labels)
    found = found.without(named) if aggregation.without else found.only(named)
    if aggregation.operator == "count_values" and isinstance(aggregation.parameter, Text):
        found = _with(found, aggregation.parameter.value)
    return found


def _of_call(call: Call, context: Context) -> LabelSet:
    inner = argument(call)
    if inner is None or call.function in _WITHOUT_LABELS:
        return _NONE
    if call.function in _ABSENCE:
        return _of_absent(inner)
    found, texts = (
        labels_of(inner, context),
        [part.value for part in call.arguments if isinstance(part, Text)],
    )
    if call.function in _OF_BUCKETS:
        found = found.without(frozenset({"le"}))
    if call.function == "histogram_quantiles":
        return _with(found, *texts)
    if call.function == "label_replace":  # $1 may be empty, and then the label goes
        label, replacement = texts[:2]
        known = label in found.certain and replacement and "$" not in replacement
        return _with(found, label) if known else _perhaps(found, label)
    if call.function == "label_join":
        label, separator, *sources = texts
        filled = found.certain.intersection(sources) or (separator and len(sources) > 1)
        return _with(found, label) if filled else _perhaps(found, label)
    # Any label of an info metric may come with it.
    return replace(found, names=frozenset(), closed=False) if call.function == "info" else found


def _of_absent(inner: Expression) -> LabelSet:
    """The labels of what is missing: those that one matcher alone, and for sure, gives a value."""
    matchers = inner.matchers if isinstance(inner, Selector) else ()
    asked = [matcher.label for matcher in matchers]
    equal = frozenset(
        m.label for m in matchers if m.operator == "=" and m.value and asked.count(m.label) == 1
    )
    return LabelSet(equal, equal, equal, closed=True)


def _with(found: LabelSet, *labels: str) -> LabelSet:
    """The same where each series has these too, with one value or another."""
    added = frozenset(labels)
    found = found.adding(added)
    return replace(found, certain=found.certain | added, pinned=found.pinned - added)


def _perhaps(found: LabelSet, label: str) -> LabelSet:
    """The same where a label is given or taken, by values that nobody knows beforehand."""
    found = found.adding(frozenset({label}))
    return replace(found, certain=found.certain - {label}, pinned=found.pinned - {label})


def _of_binary(binary: Binary, context: Context) -> LabelSet:
    left, right = labels_of(binary.left, context), labels_of(binary.right, context)
    if binary.operator == "or":
        return left.either(right)
    if binary.operator in {"and", "unless"}:
        return left
    if not has_series(binary.left):
        return right
    if not has_series(binary.right):
        return left
    return _matched(left, right, binary.matching)


def _matched(left: LabelSet, right: LabelSet, matching: Matching) -> LabelSet:
    if matching.group:
        many, one = (left, right) if matching.group == "left" else (right, left)
        lent = frozenset(matching.include)
        # What the one side does not have, the many lose.
        gone = frozenset(label for label in lent if not one.possible(label))
        found = many.adding(lent - gone).without(gone)
        return replace(
            found,
            certain=(found.certain - lent) | (one.certain & lent),
            pinned=(found.pinned - lent) | (one.pinned & lent),
        )
    named = frozenset(matching.labels)
    return left.without(named) if matching.ignoring else left.only(named)
