"""Alerts on gauges alone, which a hung engine leaves at their last values."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Call, selectors, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.signals import BY_KEY

__all__ = ["CHECK"]

#: What an engine reports with each step; a hung one makes none.
_OF_STEPS = frozenset(BY_KEY[key].name for key in ("running", "waiting", "waiting_by_reason", "kv_usage")) | {
    "vllm_observe_sequence_utilization_ratio"
}


def _run(subject: Subject) -> Iterator[Finding]:
    if not subject.rule.alerts:
        return
    if any(
        isinstance(part, Call) and part.function.startswith("absent") for part, _ in walk(subject.expression)
    ):
        return
    metrics = [subject.context.metric(part.name) for part in selectors(subject.expression)]
    families = {metric.family if metric else "" for metric in metrics}
    if families and families <= _OF_STEPS:
        yield Finding(
            Level.INFO,
            "it reads gauges alone, and a hung engine keeps its last values: let an alert on work without "
            "tokens, such as VLLMEngineStalled, mute this one",
        )


CHECK = Check("frozen-gauge", "An alert reads gauges alone that a hung engine freezes.", _run)
