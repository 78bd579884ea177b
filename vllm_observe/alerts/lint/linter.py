"""All checks over all rules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from vllm_observe.alerts.lint.checks import CHECKS, SYNTAX
from vllm_observe.alerts.lint.context import Context, Recorded
from vllm_observe.alerts.lint.expression import Expression
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.parsing import ExpressionError, parse
from vllm_observe.alerts.lint.problem import Finding, Level, Problem
from vllm_observe.alerts.lint.rulefiles import Rule
from vllm_observe.alerts.lint.subject import Subject
from vllm_observe.alerts.lint.timing import wrong_duration
from vllm_observe.alerts.lint.units import quantity
from vllm_observe.alerts.lint.values import Values
from vllm_observe.alerts.lint.vocabulary import Vocabulary
from vllm_observe.alerts.lint.windows import window_of

__all__ = ["lint"]

#: How often recording rules are gone through: each time one more of those that build on each other is
#: understood. People build on one or two.
_PASSES = 3


def lint(
    rules: Sequence[Rule],
    vocabulary: Vocabulary,
    *,
    scrape_interval: float = 15.0,
    disabled: Collection[str] = (),
) -> list[Problem]:
    """Check rules.

    Args:
        rules: all that Prometheus has, since recording rules are known by their names.
        vocabulary: the metrics that there are.
        scrape_interval: seconds between two scrapes.
        disabled: ids of checks to leave out.

    Returns:
        What is wrong, in the order of the rules.
    """
    read = [(rule, _read(rule)) for rule in rules]
    recordings = [
        (rule, parsed) for rule, parsed in read if not rule.alerts and not isinstance(parsed, Finding)
    ]
    context = _with_recordings(Context(vocabulary, scrape_interval=scrape_interval), recordings)
    found: list[Problem] = []
    for rule, parsed in read:
        off = rule.disabled | frozenset(disabled)
        if SYNTAX not in off:
            found += _placed(rule, SYNTAX, _durations(rule))
        if isinstance(parsed, Finding):
            found += _placed(rule, SYNTAX, [] if SYNTAX in off else [parsed])
            continue
        subject = Subject(rule, parsed, context)
        for check in CHECKS:
            if check.id not in off:
                found += _placed(rule, check.id, check.run(subject))
    return found


def _read(rule: Rule) -> Expression | Finding:
    try:
        return parse(rule.expr)
    except ExpressionError as error:
        return Finding(Level.ERROR, f"it is no PromQL: {error}")


def _durations(rule: Rule) -> Iterator[Finding]:
    for name, text in rule.durations.items():
        wrong = wrong_duration(text)
        if wrong is not None:
            yield Finding(Level.ERROR, f"{name}: {text!r} {wrong}")


def _with_recordings(context: Context, recordings: Sequence[tuple[Rule, Expression]]) -> Context:
    for _ in range(_PASSES):
        known: dict[str, Recorded] = {}
        for rule, expression in recordings:
            found, before = _recorded(rule, expression, context), known.get(rule.name)
            known[rule.name] = _together(before, found) if before else found
        context = replace(context, recordings=known)
    return context


def _recorded(rule: Rule, expression: Expression, context: Context) -> Recorded:
    labels, own = labels_of(expression, context), frozenset(rule.labels)
    labels = replace(labels.adding(own), certain=labels.certain | own)
    values = Values(context).of(expression)
    window = window_of(expression, context)
    return Recorded(labels, quantity(expression, context), window, values, (expression,))


def _together(one: Recorded, other: Recorded) -> Recorded:
    """What two rules record under one name: the first says what it is."""
    return replace(one, values=one.values.join(other.values), made_of=one.made_of + other.made_of)


def _placed(rule: Rule, check: str, findings: Iterable[Finding]) -> Iterator[Problem]:
    for level, message in findings:
        yield Problem(rule.file, rule.line, rule.group, rule.name, check, level, message)
