"""Seconds compared as milliseconds, and milliseconds as seconds."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.context import Quantity
from vllm_observe.alerts.lint.expression import Call, Comparison, comparisons, selectors, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.alerts.lint.units import quantity
from vllm_observe.signals import BY_KEY

__all__ = ["CHECK"]

_MILLISECONDS = 1000.0
#: Seconds from which a bound was most likely meant as milliseconds: nobody waits that long for a token,
#: nor for an answer before somebody is called.
_HARDLY_FOR_A_TOKEN_S = 20.0
_HARDLY_S = 1000.0
_PER_TOKEN = frozenset(BY_KEY[key].name for key in ("itl", "tpot"))
#: Milliseconds below which a bound was most likely meant as seconds.
_HARDLY_MS = 10.0


def _run(subject: Subject) -> Iterator[Finding]:
    for comparison in comparisons(subject.expression):
        found = quantity(comparison.of, subject.context)
        if found is None:
            continue
        scale = found.scale * (1 if found.unit == "seconds" else _MILLISECONDS)
        if found.unit == "seconds" and scale == 1:
            yield from _seconds(comparison, found, subject)
        elif (
            found.unit in {"seconds", "milliseconds"}
            and scale >= _MILLISECONDS
            and 0 < comparison.bound < _HARDLY_MS
        ):
            yield Finding(
                Level.WARNING,
                f"{comparison.operator} {comparison.bound:g} compares milliseconds with what looks like seconds",
            )


def _seconds(comparison: Comparison, found: Quantity, subject: Subject) -> Iterator[Finding]:
    written = f"{comparison.operator} {comparison.bound:g}"
    hint = (
        f"the metric is in seconds: did you mean {comparison.operator} {comparison.bound / _MILLISECONDS:g}?"
    )
    largest = _largest_bucket(comparison, subject)
    hardly = _HARDLY_FOR_A_TOKEN_S if found.families & _PER_TOKEN else _HARDLY_S
    if largest is not None and comparison.operator in {">", ">=", "=="} and comparison.bound >= largest:
        yield Finding(
            Level.ERROR, f"{written} is never true, as the largest bucket ends at {largest:g}; {hint}"
        )
    elif comparison.bound >= hardly:
        yield Finding(Level.WARNING, f"{written} would be {comparison.bound / 60:.3g} minutes; {hint}")


def _largest_bucket(comparison: Comparison, subject: Subject) -> float | None:
    """Return the most that a quantile can be: the largest finite bound of what it is taken of."""
    if not any(
        isinstance(part, Call) and part.function == "histogram_quantile" for part, _ in walk(comparison.of)
    ):
        return None
    metrics = [subject.context.metric(part.name) for part in selectors(comparison.of)]
    bounds = [
        float(value)
        for metric in metrics
        if metric
        for value in metric.values.get("le", ())
        if value != "+Inf"
    ]
    return max(bounds, default=None)


CHECK = Check(
    "seconds-as-milliseconds", "Seconds are compared as milliseconds, or the other way round.", _run
)
