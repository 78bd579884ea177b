"""Alerts on nothing being done, which is what an idle server does too."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Binary, Call, Comparison, Expression, selectors, walk
from vllm_observe.alerts.lint.expression import comparisons as compared
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.alerts.lint.vocabulary import Metric

__all__ = ["CHECK"]

_GROWTH = frozenset({"rate", "irate", "increase", "delta", "idelta", "deriv", "changes"})
#: What is counted with each step of an engine; of requests, few may be what one wants to hear of.
_OF_WORK = frozenset({"tokens", "seconds"})
_GUARDS = frozenset({"and", "unless"})


def _run(subject: Subject) -> Iterator[Finding]:
    guarded = [
        part for part, _ in walk(subject.expression) if isinstance(part, Binary) and part.operator in _GUARDS
    ]
    if not subject.rule.alerts or guarded:
        return
    for comparison in compared(subject.expression):
        metric = _grown(comparison, subject)
        if metric is not None:
            yield Finding(
                Level.WARNING if metric.unit in _OF_WORK else Level.INFO,
                f"{comparison.operator} {comparison.bound:g} holds for an idle server too: ask whether there is work, "
                "as in `… and on (instance) vllm:num_requests_running > 0`",
            )


def _grown(comparison: Comparison, subject: Subject) -> Metric | None:
    """The one counter whose growth is compared with little, if it is that."""
    few = comparison.operator in {"<", "<="} or (comparison.operator == "==" and comparison.bound == 0)
    names = {part.name for part in selectors(comparison.of)}
    if not few or comparison.at.as_bool or len(names) != 1 or not _is_growth(comparison.of):
        return None
    metric = subject.context.metric(names.pop())
    # What counts faults has to stay at 0; that it does is for nobody to be called.
    return metric if metric is not None and metric.counts else None


def _is_growth(expression: Expression) -> bool:
    parts = [part for part, _ in walk(expression)]
    ratio = any(isinstance(part, Binary) and part.operator == "/" for part in parts)
    return not ratio and any(isinstance(part, Call) and part.function in _GROWTH for part in parts)


CHECK = Check("idle-or-stuck", "An alert on nothing being done does not ask whether there is work.", _run)
