"""A ratio from 0 to 1 compared as a percentage, and a percentage compared as a ratio."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Comparison, comparisons
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.alerts.lint.units import RATIO, quantity
from vllm_observe.thresholds import BURN_RATES

__all__ = ["CHECK"]

_PERCENT = 100.0
#: How many times too fast a budget burns: with such a number nobody means percent.
_BURN_FACTORS = frozenset({13.44, *(rate.factor for rate in BURN_RATES)})


def _run(subject: Subject) -> Iterator[Finding]:
    for comparison in comparisons(subject.expression):
        found = quantity(comparison.of, subject.context)
        if found is not None and found.unit == RATIO and found.share:
            yield from _judge(comparison, found.scale)


def _judge(comparison: Comparison, scale: float) -> Iterator[Finding]:
    bound, operator = comparison.bound, comparison.operator
    written = f"{operator} {bound:g}"
    beyond = bound > scale or (bound == scale and operator == ">")
    if beyond:
        always = "always" if operator in {"<", "<=", "!="} else "never"
        yield Finding(
            Level.ERROR,
            f"{written} is {always} true: the ratio goes from 0 to {scale:g}{_mend(bound, operator, scale)}",
        )
    elif scale == _PERCENT and 0 < bound < 1:
        yield Finding(
            Level.WARNING, f"{written} compares percent with a ratio: write {operator} {bound * _PERCENT:g}"
        )


def _mend(bound: float, operator: str, scale: float) -> str:
    if bound == scale:
        return f", and the whole of it is >= {bound:g}"
    if scale != 1 or bound > _PERCENT:
        return ""
    if bound in _BURN_FACTORS:
        return f": where that is a burn rate, compare with its budget's share, such as {operator} {bound:g} * 0.01"
    return f": write {operator} {bound / _PERCENT:g}"


CHECK = Check(
    "ratio-as-percent", "A ratio from 0 to 1 is compared as a percentage, or the other way round.", _run
)
