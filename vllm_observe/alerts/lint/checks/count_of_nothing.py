"""Counts that are compared with a lower bound, and are not 0 but absent where nothing is left to count."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import (
    Aggregation,
    Binary,
    Comparison,
    Expression,
    Selector,
    comparisons,
    walk,
)
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    for comparison in comparisons(subject.expression):
        finding = _judge(comparison)
        if finding is not None:
            yield finding


def _judge(comparison: Comparison) -> Finding | None:
    counted, operator, bound = comparison.of, comparison.operator, comparison.bound
    if not isinstance(counted, Aggregation) or counted.operator not in {"count", "group", "sum"}:
        return None
    filters = _filters(counted.of)
    written = f"{counted.operator}(…) {operator} {bound:g}"
    least = 1 if counted.operator in {"count", "group"} else None
    if least and (
        (operator == "==" and bound < least)
        or (operator == "<" and bound <= least)
        or (operator == "<=" and bound < least)
    ):
        return Finding(
            Level.ERROR, f"{written} is never true: a count of nothing is absent, not 0; add `or vector(0)`"
        )
    if operator in {"<", "<="} and filters and bound > 0:
        return Finding(
            Level.WARNING,
            f"{written} is silent when none is left, as a count of nothing is absent: compare with `bool` and sum, "
            "or add `or vector(0)`",
        )
    if operator in {"<", "<=", "=="} and isinstance(counted.of, Selector) and counted.of.name == "up":
        return Finding(
            Level.INFO,
            f"{counted.operator}(up) {operator} {bound:g} is silent once the last target has left Prometheus's "
            "list: let another alert tell of that, such as up offset 15m unless up",
        )
    return None


def _filters(expression: Expression) -> bool:
    """Whether it drops series by their values."""
    return any(
        isinstance(part, Binary) and part.compares and not part.as_bool for part, _ in walk(expression)
    )


CHECK = Check("count-of-nothing", "A count below a bound is silent where nothing is left to count.", _run)
