"""Alerts that do not say what is wrong, or what to do."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

#: What people call the text, and the link.
_WANTED = {
    "a summary": frozenset({"summary", "description", "message"}),
    "a runbook_url": frozenset({"runbook_url", "runbook"}),
}


def _run(subject: Subject) -> Iterator[Finding]:
    if not subject.rule.alerts:
        return
    filled = {name for name, text in subject.rule.annotations.items() if text.strip()}
    lacking = [wanted for wanted, names in _WANTED.items() if not names & filled]
    if lacking:
        yield Finding(
            Level.INFO,
            f"whoever is called finds no {' and no '.join(item.removeprefix('a ') for item in lacking)} in it",
        )


CHECK = Check("missing-annotation", "An alert has no summary or no runbook.", _run)
