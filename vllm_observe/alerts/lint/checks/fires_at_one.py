"""Alerts that fire at one event of a kind that sound servers have."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Binary, Call, Selector, comparisons, selectors, walk
from vllm_observe.alerts.lint.matching import alternatives
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.signals import BY_KEY

__all__ = ["CHECK"]

_GROWTH = frozenset({"rate", "irate", "increase"})
_PREEMPTED = frozenset(BY_KEY[key].name for key in ("preemptions", "request_preemptions"))
_USUAL = _PREEMPTED | {"vllm_observe_request_retries_total"}
#: Ends of requests that are no fault of the server's, by the label that tells them.
_USUAL_ENDS = {
    "finished_reason": frozenset({"stop", "length"}),  # clients that leave are no abort there
    "status": frozenset({"2xx", "4xx"}),
    "outcome": frozenset({"ok", "abort"}),
}


def _run(subject: Subject) -> Iterator[Finding]:
    expression = subject.expression
    joined = any(
        isinstance(part, Binary) and part.operator in {"and", "unless", "/"} for part, _ in walk(expression)
    )
    if not subject.rule.alerts or joined:
        return
    for comparison in comparisons(expression):
        grows = any(isinstance(part, Call) and part.function in _GROWTH for part, _ in walk(comparison.of))
        usual = [part for part in selectors(comparison.of) if _is_usual(part, subject)]
        if comparison.operator == ">" and comparison.bound == 0 and grows and usual:
            yield Finding(
                Level.INFO,
                f"> 0 fires at a single one of {usual[0].name}, and sound servers have some: ask for a rate that hurts",
            )


def _is_usual(selector: Selector, subject: Subject) -> bool:
    metric = subject.context.metric(selector.name)
    if metric is None:
        return False
    return metric.family in _USUAL or any(
        value in _USUAL_ENDS.get(matcher.label, ())
        for matcher in selector.matchers
        for value in alternatives(matcher)
    )


CHECK = Check("fires-at-one", "An alert fires at one event of a kind that sound servers have.", _run)
