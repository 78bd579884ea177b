"""Matchers whose value no series has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vllm_observe.alerts.lint.expression import Matcher, Selector, selectors
from vllm_observe.alerts.lint.matching import accepts, alternatives
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, listed, near
from vllm_observe.alerts.lint.vocabulary import Metric
from vllm_observe.signals import PREFIXES

__all__ = ["CHECK"]

#: How to ask for what a matcher leaves out.
_POSITIVE = {"!=": "=", "!~": "=~"}


def _run(subject: Subject) -> Iterator[Finding]:
    told = set()
    for selector in selectors(subject.expression):
        metric = subject.context.metric(selector.name)
        for matcher in selector.matchers:
            if metric is None or matcher.label == "le" or not metric.values.get(matcher.label):
                continue
            finding = _judge(matcher, selector, metric, seen=subject.context.vocabulary.pages)
            if finding is not None and finding not in told:
                told.add(finding)
                yield finding


def _judge(matcher: Matcher, selector: Selector, metric: Metric, *, seen: bool) -> Finding | None:
    known, closed = metric.values[matcher.label], matcher.label in metric.closed
    excludes = matcher.operator in _POSITIVE
    asked = replace(matcher, operator=_POSITIVE.get(matcher.operator, matcher.operator))
    parts = (
        replace(asked, value=value) for value in alternatives(asked) if value
    )  # 5.. is one, and takes 5xx
    named = [part.value for part in parts if all(accepts(part, value) is False for value in known)]
    meant = next(filter(None, (near(value, known) for value in named)), None)
    hint = f": did you mean {meant}?" if meant else f": known are {listed(known)}"
    if any(accepts(matcher, value) is not False for value in known):
        if not named or not closed:
            return None
        effect = ", so this leaves nothing out" if excludes else ""
        never = f"{matcher.label} of {selector.name} is never {' or '.join(named)}"
        return Finding(Level.WARNING, f"{never}{effect}{hint}")
    if excludes:
        return Finding(Level.WARNING, f"{matcher} leaves nothing of {selector.name} as it is exposed")
    nothing = f"{matcher} matches no series of {selector.name}"
    if closed and not seen and not selector.name.startswith(PREFIXES):
        return Finding(
            Level.WARNING, f"{nothing}, if it is vLLM's: else give its page with --exposition{hint}"
        )
    if closed:
        return Finding(Level.ERROR, f"{nothing}{hint}")
    return _judge_open(nothing, meant, hint, seen=seen)


def _judge_open(nothing: str, meant: str | None, hint: str, *, seen: bool) -> Finding | None:
    """Which models, paths and clients there are depends on the server and its traffic."""
    level = Level.WARNING if meant else Level.INFO
    if seen:
        return Finding(level, f"{nothing} on the pages given{hint}")
    return Finding(level, f"{nothing} as far as is known{hint}") if meant else None


CHECK = Check("unknown-value", "A matcher asks for a value that the label never has.", _run)
