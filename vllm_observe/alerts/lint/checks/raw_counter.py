"""Counters used as they are: their value says how long the server runs."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import (
    Aggregation,
    Binary,
    Call,
    Expression,
    Selector,
    selectors,
    walk,
)
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

#: What makes something of a counter, or asks only whether it is there.
_FUNCTIONS = frozenset(
    {"rate", "irate", "increase", "resets", "changes", "absent", "absent_over_time", "present_over_time"}
    | {"count_over_time", "timestamp", "scalar", "last_over_time"}
)
_AGGREGATIONS = frozenset({"count", "group", "count_values"})


def _run(subject: Subject) -> Iterator[Finding]:
    told: set[str] = set()
    for part, above in walk(subject.expression):
        if not isinstance(part, Selector) or part.name in told or not _counts(part.name, subject.context):
            continue
        inside = zip(above, (*above, part)[1:], strict=True)
        if not any(_makes_something(outer, inner, part.name) for outer, inner in inside):
            told.add(part.name)
            yield Finding(
                Level.WARNING,
                f"{part.name} is a counter and only grows until a restart: take rate() or increase() of it",
            )


def _counts(name: str, context: Context) -> bool:
    metric = context.metric(name)
    if metric is not None:
        return metric.counts
    return name not in context.recordings and name.endswith(("_total", "_bucket"))


def _makes_something(outer: Expression, inner: Expression, counter: str) -> bool:
    if isinstance(outer, Call):
        return outer.function in _FUNCTIONS
    if isinstance(outer, Aggregation):
        return outer.operator in _AGGREGATIONS
    if isinstance(outer, Binary) and outer.operator in {"and", "unless"}:
        return (inner is outer.right and not _compares(inner)) or _has_its_past(outer, counter)
    return False


def _has_its_past(expression: Expression, counter: str) -> bool:
    """Whether a counter is compared with what it was before, as in ``x unless x offset 10m``."""
    parts = list(selectors(expression))
    return {part.name for part in parts} == {counter} and any(part.offset for part in parts)


def _compares(expression: Expression) -> bool:
    return isinstance(expression, Binary) and expression.compares


CHECK = Check("raw-counter", "A counter is used without rate or increase.", _run)
