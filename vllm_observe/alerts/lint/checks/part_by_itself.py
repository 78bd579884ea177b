"""A part that is compared with itself instead of the whole: both sides keep the label that tells it apart.

``rate(x{status="5xx"}[5m]) / rate(x[5m])`` divides each series of errors by the series of the same errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import (
    Aggregation,
    Binary,
    Call,
    Expression,
    Matcher,
    Selector,
    Subquery,
    bare,
    constant,
    has_series,
    walk,
)
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, listed

__all__ = ["CHECK"]

#: These make another thing of a part than of the whole, even where its label stays.
_OTHERWISE = frozenset(
    {"label_replace", "label_join", "absent", "absent_over_time", "scalar", "vector", "info"}
)
_GROUPS = frozenset({"sum", "avg", "min", "max", "count", "group", "quantile", "stddev", "stdvar"})


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if isinstance(part, Binary) and (part.operator in {"/", "-"} or part.compares):
            kept = _kept(part, subject)
            if kept:
                names = listed({matcher.label for matcher in kept})
                yield Finding(
                    Level.ERROR,
                    f"both sides of `{part.operator}` keep {names}, so what has {listed(map(str, kept))} meets itself "
                    f"and not the whole: aggregate {names} away on both",
                )


def _kept(binary: Binary, subject: Subject) -> frozenset[Matcher]:
    """The matchers of the left side that the right one lacks, if they make no difference."""
    left, right = _core(binary.left), _core(binary.right)
    narrower = _narrower(left, right)
    if not narrower:
        return frozenset()
    sides = labels_of(left, subject.context), labels_of(right, subject.context)
    stays = all(
        binary.matching.matches_on(matcher.label) and all(side.possible(matcher.label) for side in sides)
        for matcher in narrower
    )
    return narrower if stays else frozenset()


def _core(expression: Expression) -> Expression:
    """An expression without its guard and the numbers that it is multiplied with."""
    expression = bare(expression)
    if isinstance(expression, Binary) and expression.operator in {"*", "/"}:
        if constant(expression.right) is not None:
            return _core(expression.left)
        if expression.operator == "*" and constant(expression.left) is not None:
            return _core(expression.right)
    return expression


def _narrower(one: Expression, whole: Expression) -> frozenset[Matcher] | None:
    """The matchers that one has more than another, which is the same otherwise; ``None`` where it is not."""
    if isinstance(one, Selector) and isinstance(whole, Selector):
        alike = (one.name, one.window, one.offset, one.at) == (
            whole.name,
            whole.window,
            whole.offset,
            whole.at,
        )
        more = frozenset(one.matchers) - frozenset(whole.matchers)
        return more if alike and frozenset(whole.matchers) <= frozenset(one.matchers) else None
    if isinstance(one, Subquery) and isinstance(whole, Subquery):
        alike = (one.window, one.offset, one.at, one.step) == (
            whole.window,
            whole.offset,
            whole.at,
            whole.step,
        )
        return _narrower(one.of, whole.of) if alike else None
    if isinstance(one, Aggregation) and isinstance(whole, Aggregation):
        grouped = (one.operator, one.labels, one.without, one.parameter)
        alike = grouped == (whole.operator, whole.labels, whole.without, whole.parameter)
        return _narrower(one.of, whole.of) if alike and one.operator in _GROUPS else None
    if isinstance(one, Call) and isinstance(whole, Call):
        return _narrower_call(one, whole)
    return frozenset() if one == whole and not has_series(one) else None


def _narrower_call(one: Call, whole: Call) -> frozenset[Matcher] | None:
    if (
        one.function != whole.function
        or one.function in _OTHERWISE
        or len(one.arguments) != len(whole.arguments)
    ):
        return None
    found: frozenset[Matcher] = frozenset()
    for mine, theirs in zip(one.arguments, whole.arguments, strict=True):
        more = _narrower(mine, theirs)
        if more is None:
            return None
        found |= more
    return found


CHECK = Check(
    "part-by-itself",
    "A part is compared with itself, as both sides keep the label that tells it apart.",
    _run,
)
