"""``le`` matchers that are no bucket's bound, or not spelled as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Selector, selectors
from vllm_observe.alerts.lint.matching import accepts
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    told = set()
    for selector in selectors(subject.expression):
        metric = subject.context.metric(selector.name)
        if metric is None or metric.part != "bucket":
            continue
        known = metric.values.get("le", frozenset())
        for matcher in selector.matchers:
            if matcher.label != "le" or (matcher, selector.name) in told:
                continue
            told.add((matcher, selector.name))
            if matcher.operator == "=":
                yield from _exact(matcher.value, known, selector)
            elif (
                matcher.operator == "=~"
                and known
                and not any(accepts(matcher, value) is not False for value in known)
            ):
                yield Finding(Level.ERROR, f"{matcher} is no bucket of {selector.name}")


def _exact(asked: str, known: frozenset[str], selector: Selector) -> Iterator[Finding]:
    bound = _number(asked)
    if bound is None or math.isinf(bound):
        if asked != "+Inf":
            yield Finding(
                Level.ERROR, f'le="{asked}" is no bucket of {selector.name}: a bound is a number or +Inf'
            )
        return
    # Prometheus 3 writes every bound as a float; Prometheus 2 keeps it as the page has it.
    spelled = [value for value in known if _number(value) == bound]
    normal = _normal(bound)
    either = (
        f'le=~"{bound:g}([.]0)?"'.replace(".", "[.]", 1)
        if not bound.is_integer()
        else f'le=~"{bound:g}([.]0)?"'
    )
    if known and not spelled:
        yield Finding(Level.ERROR, f'le="{asked}" is no bucket of {selector.name}: {_nearest(bound, known)}')
    elif asked != normal and (not spelled or asked not in spelled):
        yield Finding(Level.ERROR, f'le="{asked}" matches nothing: the bound is written le="{normal}"')
    elif asked != normal:
        yield Finding(
            Level.WARNING,
            f'le="{asked}" is right in Prometheus 2 alone, Prometheus 3 writes "{normal}": {either} takes both',
        )
    elif spelled and asked not in spelled:
        yield Finding(
            Level.WARNING,
            f'le="{asked}" is right in Prometheus 3 alone, Prometheus 2 keeps "{spelled[0]}": {either} takes both',
        )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _normal(bound: float) -> str:
    return f"{bound:g}.0" if bound.is_integer() and "e" not in f"{bound:g}" else repr(bound)


def _nearest(bound: float, known: frozenset[str]) -> str:
    bounds = sorted(number for number in map(_number, known) if number is not None)
    below = [other for other in bounds if other < bound][-1:]
    above = [other for other in bounds if other > bound][:1]
    return "the nearest are " + " and ".join(
        "+Inf" if math.isinf(other) else _normal(other) for other in (*below, *above)
    )


CHECK = Check("le-value", "An `le` matcher is no bucket's bound, or not spelled as it is exposed.", _run)
