"""Functions for counters over gauges, where every fall counts as a restart."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Call, selectors, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.model import Kind

__all__ = ["CHECK"]

_FOR_COUNTERS = frozenset({"rate", "irate", "increase", "resets"})


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if not isinstance(part, Call) or part.function not in _FOR_COUNTERS:
            continue
        for selector in selectors(part):
            metric = subject.context.metric(selector.name)
            if metric is not None and metric.kind is Kind.GAUGE:
                yield Finding(
                    Level.ERROR,
                    f"{part.function}() takes each fall of the gauge {selector.name} for a restart: "
                    "take delta(), deriv() or avg_over_time()",
                )


CHECK = Check("rate-of-gauge", "rate, irate, increase or resets is taken of a gauge.", _run)
