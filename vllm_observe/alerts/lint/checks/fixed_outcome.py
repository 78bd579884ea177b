"""Conditions that hold for no value that can come, or for every one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vllm_observe.alerts.lint.checks import count_of_nothing, no_condition, ratio_as_percent
from vllm_observe.alerts.lint.expression import (
    Binary,
    Call,
    Expression,
    Selector,
    bare,
    children,
    constant,
    filters,
    is_nan,
    keeps_right,
    selectors,
    walk,
)
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.ranges import TURNED
from vllm_observe.alerts.lint.subject import Check, Subject, listed
from vllm_observe.alerts.lint.tables import described
from vllm_observe.alerts.lint.values import Values

__all__ = ["CHECK"]

#: These say the same of what they know, and how to mend it.
_KNOW_BETTER = (ratio_as_percent.CHECK, count_of_nothing.CHECK)
#: Series that Prometheus makes of its rules.
_OF_RULES = frozenset({"ALERTS", "ALERTS_FOR_STATE"})


def _run(subject: Subject) -> Iterator[Finding]:
    values = Values(subject.context)
    parts = [part for part, _ in walk(subject.expression)]
    if any(_known_better(part, subject) for part in parts if filters(part)):
        return
    told = [*_never(subject, parts, values)] or [*_always(subject, parts, values)] or [*_hints(parts, values)]
    yield from dict.fromkeys(told)


def _known_better(part: Expression, subject: Subject) -> bool:
    alone = replace(subject, expression=part)
    return any(finding.level is Level.ERROR for check in _KNOW_BETTER for finding in check.run(alone))


def _never(subject: Subject, parts: list[Expression], values: Values) -> Iterator[Finding]:
    """Tell the innermost parts that give nothing."""
    wholly = values.of(subject.expression).empty
    for part in parts:
        if values.of(part).empty and not any(values.of(child).empty for child in children(part)):
            effect = "" if wholly else ": this part of the rule gives nothing"
            yield Finding(Level.ERROR if wholly else Level.WARNING, _why_never(part, values) + effect)


def _why_never(part: Expression, values: Values) -> str:
    if not isinstance(part, Binary):
        return f"{part.function if isinstance(part, Call) else 'it'}() gives nothing: its least is above its most"
    if part.compares and values.never(part):
        return f"{_written(part)} is never true: {_known(part, values)}"
    about = next((about for about, asked in values.conditions(part).items() if asked.empty), bare(part))
    if part.operator == "unless":
        return f"`unless` takes away all of {_named(about)} that its left side keeps"
    return f"no value of {_named(about)} satisfies all that `{part.operator}` joins"


def _always(subject: Subject, parts: list[Expression], values: Values) -> Iterator[Finding]:
    """Tell an alert that only looks as if it had a condition."""
    names = {selector.name for selector in selectors(subject.expression)}
    heartbeat = not names
    if not subject.rule.alerts or heartbeat or _decides(subject.expression, subject, values):
        return
    if any(no_condition.CHECK.run(subject)):
        return
    says = "it fires for as long as the series exist"
    level = Level.ERROR
    whole = next((part for part in parts if filters(part) and values.always(part)), None)
    if whole is not None:
        says += f": {_written(whole)} is always true, as {_known(whole, values)}"
    elif either := next(_covering(parts, values), None):
        says += f": {_covers(either)}"
    else:
        says += (
            ", whatever their values: one side of `or` compares nothing; write (a or b) > 1 to compare both"
        )
        # Of another program's metric we cannot know whether it is there only while something is wrong.
        level = Level.ERROR if all(map(_lasts, names)) else Level.WARNING
    yield Finding(level, says)


def _lasts(name: str) -> bool:
    """Whether a metric is there for as long as its server is."""
    return name == "up" or described(name) is not None


def _decides(part: Expression, subject: Subject, values: Values) -> bool:
    """Whether it depends on values, or on what else is there, if a part gives anything."""
    inner = [_decides(child, subject, values) for child in children(part)]
    if isinstance(part, Selector):
        # What a rule records or alerts on may be there only while something is wrong.
        return part.name in subject.context.recordings or part.name in _OF_RULES
    if not isinstance(part, Binary):
        return any(inner) or (isinstance(part, Call) and part.function.startswith("absent"))
    if part.operator == "or":
        return all(inner) and not values.all_covered(part)
    if part.operator == "and":
        return any(inner) or not values.alike(part)
    return part.operator == "unless" or any(inner) or (filters(part) and not values.always(part))


def _covering(parts: list[Expression], values: Values) -> Iterator[Binary]:
    for part in parts:
        if isinstance(part, Binary) and part.operator == "or" and values.all_covered(part):
            yield part


def _covers(either: Binary) -> str:
    return f"one side of `or` or the other holds for every value of {_named(either)}"


def _hints(parts: list[Expression], values: Values) -> Iterator[Finding]:
    """Tell what has a fixed outcome and does not decide on its own whether the rule gives anything."""
    yield from (Finding(Level.WARNING, _covers(either)) for either in _covering(parts, values))
    for part in parts:
        if isinstance(part, Binary) and part.as_bool and values.never(part):
            yield Finding(Level.WARNING, f"{_written(part)} is always 0: {_known(part, values)}")
    for part in _by_itself(parts[0], values):
        result = f"the result {values.of(part)}"
        yield Finding(Level.WARNING, f"both sides of `{part.operator}` are the same: {result}")


def _by_itself(expression: Expression, values: Values) -> Iterator[Binary]:
    """Give what takes something from itself, or divides it by itself."""
    for part, _ in walk(expression):
        if isinstance(part, Binary) and part.operator in {"-", "/"} and values.alike(part):
            yield part


def _written(comparison: Binary) -> str:
    left, right = constant(comparison.left), constant(comparison.right)
    if right is not None:
        return f"{comparison.operator} {right:g}"
    return f"`{comparison.operator}`" if left is None else f"{TURNED[comparison.operator]} {left:g}"


def _known(comparison: Binary, values: Values) -> str:
    """Say what is known of the sides."""
    if values.alike(comparison):
        return "both sides are the same; did you forget an offset?"
    right = keeps_right(comparison)
    kept, other = (comparison.right, comparison.left) if right else (comparison.left, comparison.right)
    if is_nan(other):
        return "nothing equals NaN, which `x != x` asks for"
    if constant(other) is not None:
        alike = (f", as both sides of `{part.operator}` are the same" for part in _by_itself(kept, values))
        return f"what is compared {values.of(kept)}{next(alike, '')}"
    if values.decided_by_ranges(comparison):
        return f"the left side {values.of(comparison.left)}, the right one {values.of(comparison.right)}"
    return "a window ends now and holds the present value too; give it an offset"


def _named(expression: Expression) -> str:
    names = {selector.name or "the selector" for selector in selectors(expression)}
    calls = (f"{part.function}()" for part, _ in walk(expression) if isinstance(part, Call))
    return listed(names) if names else next(calls, "it")


CHECK = Check("fixed-outcome", "A condition holds for no value that can come, or for every one.", _run)
