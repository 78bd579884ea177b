"""Texts with a label that the expression has aggregated away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, listed

__all__ = ["CHECK"]

_TEMPLATE = re.compile(r"{{(.*?)}}", re.DOTALL)
_LABEL = re.compile(r"\$labels\.(\w+)|\.Labels\.(\w+)|index\s+\$labels\s+\"(\w+)\"")
#: Templates that ask whether the label is there.
_ASKS = re.compile(r"\s*-?\s*(?:if|with|else|else if)\b|\bor\b")


def _run(subject: Subject) -> Iterator[Finding]:
    if not subject.rule.alerts:
        return
    found = labels_of(subject.expression, subject.context)
    for name, text in (*subject.rule.labels.items(), *subject.rule.annotations.items()):
        missing = {label for label in _shown(text) if not found.possible(label)}
        if missing:
            # A link with a value less still leads somewhere; a text with a hole names nobody.
            yield Finding(
                Level.INFO if name.endswith("_url") else Level.WARNING,
                f"{name} shows {listed(missing)}, which the expression does not have: keep it in its by (…)",
            )


def _shown(text: str) -> Iterator[str]:
    for template in _TEMPLATE.findall(text):
        if not _ASKS.search(template):
            yield from (next(filter(None, groups)) for groups in _LABEL.findall(template))


CHECK = Check(
    "template-label", "An annotation or label shows a label that the expression aggregates away.", _run
)
