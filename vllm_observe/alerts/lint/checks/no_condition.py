"""Alerts without a condition: they fire for as long as the series exist."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Binary, Call, Expression, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    expression = subject.expression
    if not subject.rule.alerts or any(_decides(part) for part, _ in walk(expression)):
        return
    yield Finding(
        Level.WARNING,
        "it fires for as long as the series exist, whatever their values: compare them with something",
    )


def _decides(part: Expression) -> bool:
    if isinstance(part, Call):
        return part.function.startswith("absent")
    # With bool a comparison gives 0 or 1, and 0 fires as well.
    return isinstance(part, Binary) and (
        part.operator in {"and", "unless"} or (part.compares and not part.as_bool)
    )


CHECK = Check("no-condition", "An alert compares nothing, so it fires whenever the series exist.", _run)
