"""The sum of a histogram's seconds without its count: that is no mean, and grows with the traffic."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import (
    Binary,
    Call,
    Expression,
    comparisons,
    has_series,
    selectors,
    walk,
)
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

_GROWTH = frozenset({"rate", "irate", "increase"})


def _run(subject: Subject) -> Iterator[Finding]:
    for comparison in comparisons(subject.expression):
        metrics = [subject.context.metric(part.name) for part in selectors(comparison.of)]
        sums = [metric for metric in metrics if metric and metric.part == "sum" and metric.unit == "seconds"]
        # Above 0 asks only whether there is any.
        if comparison.bound and sums and len(sums) == len(metrics) and _grows(comparison.of):
            yield Finding(
                Level.WARNING,
                f"{comparison.operator} {comparison.bound:g} compares the seconds of all requests together, "
                f"which grow with the traffic: divide by the same of {sums[0].family}_count for a mean",
            )


def _grows(expression: Expression) -> bool:
    parts = [part for part, _ in walk(expression)]
    divided = any(
        isinstance(part, Binary) and part.operator == "/" and has_series(part.right) for part in parts
    )
    return not divided and any(isinstance(part, Call) and part.function in _GROWTH for part in parts)


CHECK = Check(
    "sum-without-count", "Seconds of all requests together are compared as if they were a mean.", _run
)
