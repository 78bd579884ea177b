"""Alerts that fire at one sample."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.alerts.lint.windows import window_of

__all__ = ["CHECK"]

#: Seconds of a window that is as good as a ``for``.
_LONG_S = 3600.0


def _run(subject: Subject) -> Iterator[Finding]:
    if not subject.rule.alerts or (subject.rule.hold or "0").strip("0smhdwy") != "":
        return
    window = window_of(subject.expression, subject.context)
    if window == 0:
        yield Finding(Level.WARNING, "it has no `for` and no window: one sample fires it; add for: 5m")
    elif window < _LONG_S:
        yield Finding(
            Level.INFO,
            f"it has no `for`: a window of {window / 60:g} minutes alone keeps it from firing at once",
        )


CHECK = Check("missing-for", "An alert has no `for`, and its expression no window.", _run)
