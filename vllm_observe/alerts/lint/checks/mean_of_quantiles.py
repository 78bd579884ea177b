"""Means and sums of what has neither: quantiles and ratios."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Aggregation, Call, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.alerts.lint.units import RATIO, quantity

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if isinstance(part, Aggregation) and part.operator in {"sum", "avg"}:
            yield from _judge(part, subject)


def _judge(aggregation: Aggregation, subject: Subject) -> Iterator[Finding]:
    operator = aggregation.operator
    if _is_quantile(aggregation):
        yield Finding(
            Level.WARNING,
            f"{operator} of quantiles is the quantile of nothing: sum the buckets by le and take one quantile of them",
        )
        return
    found = quantity(aggregation.of, subject.context)
    if found is None or found.unit != RATIO or not found.share:
        return
    if operator == "sum":
        yield Finding(Level.WARNING, "sum of a ratio passes 1 with several engines: take max")
    else:
        yield Finding(Level.INFO, "avg of a ratio hides one full engine among idle ones: take max")


def _is_quantile(aggregation: Aggregation) -> bool:
    return any(
        isinstance(part, Call)
        and part.function == "histogram_quantile"
        and all(not isinstance(outer, Aggregation) or outer is aggregation for outer in above)
        for part, above in walk(aggregation)
    )


CHECK = Check("mean-of-quantiles", "Quantiles or ratios are averaged or summed.", _run)
