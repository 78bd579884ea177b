"""Metrics with one series for each state, of which one is 1, and others that are only ever 0 or 1."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping

from vllm_observe.alerts.lint.expression import (
    SET_OPERATORS,
    Aggregation,
    Binary,
    Comparison,
    Expression,
    Selector,
    comparisons,
    filters,
    walk,
)
from vllm_observe.alerts.lint.known import STATES, SWITCHES
from vllm_observe.alerts.lint.matching import accepts
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def _run(subject: Subject) -> Iterator[Finding]:
    decide = _deciding(subject.expression) if subject.rule.alerts else []
    for comparison in comparisons(subject.expression):
        selector = _selector(comparison.of)
        metric = subject.context.metric(selector.name) if selector else None
        family = metric.family if metric else selector.name if selector else ""
        if selector is None or family not in SWITCHES:
            continue
        if isinstance(comparison.of, Selector) and comparison.operator == "==" and 0 < comparison.bound < 1:
            yield Finding(Level.ERROR, f"== {comparison.bound:g} is never true: {selector.name} is 0 or 1")
        elif metric is not None and family in STATES and any(comparison.at is part for part in decide):
            label = STATES[family]
            if _always(comparison, selector, label, metric.values.get(label, frozenset())):
                yield Finding(
                    Level.ERROR,
                    f"{selector.name} has a series for each {label}, and for one or another of them "
                    f'{comparison.operator} {comparison.bound:g} always holds: say which, as in {{{label}="…"}}',
                )


def _deciding(expression: Expression) -> list[Expression]:
    """The comparisons by which alone a rule fires or not."""
    found: list[Expression] = []
    for part, above in walk(expression):
        if filters(part) and all(
            isinstance(outer, Binary) and outer.operator in SET_OPERATORS for outer in above
        ):
            found.append(part)
    return found


def _selector(expression: Expression) -> Selector | None:
    """The series that are compared, as they are or the most or least of each group."""
    while isinstance(expression, Aggregation) and expression.operator in {"max", "min", "sum"}:
        expression = expression.of
    return expression if isinstance(expression, Selector) and expression.window is None else None


def _always(comparison: Comparison, selector: Selector, label: str, states: frozenset[str]) -> bool:
    """Whether it holds for one of the states that are asked for, whichever the engine is in."""
    matchers = [matcher for matcher in selector.matchers if matcher.label == label]
    asked = [state for state in states if all(accepts(matcher, state) is not False for matcher in matchers)]
    holds = _HOLDS[comparison.operator]
    on = len(asked) == len(states) and holds(1.0, comparison.bound)
    return len(asked) > 1 and (on or holds(0.0, comparison.bound))


CHECK = Check(
    "every-state", "A metric with a series for each state is compared without saying which state.", _run
)
