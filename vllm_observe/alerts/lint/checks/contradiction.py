"""Matchers of one selector that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Selector, selectors
from vllm_observe.alerts.lint.matching import accepts, alternatives
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    for selector in dict.fromkeys(selectors(subject.expression)):
        yield from _of(selector)


def _of(selector: Selector) -> Iterator[Finding]:
    for label in dict.fromkeys(matcher.label for matcher in selector.matchers):
        matchers = [matcher for matcher in selector.matchers if matcher.label == label]
        values = next(filter(None, map(alternatives, matchers)), ())
        if values and not any(
            all(accepts(matcher, value) is not False for matcher in matchers) for value in values
        ):
            together = ", ".join(map(str, matchers))
            yield Finding(
                Level.ERROR, f"{selector.name}{{{together}}} matches nothing: no {label} satisfies all of it"
            )


CHECK = Check("contradiction", "The matchers of one selector cannot hold together.", _run)
