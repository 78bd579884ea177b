"""What a check looks at, and what a check is."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import Expression
from vllm_observe.alerts.lint.problem import Finding
from vllm_observe.alerts.lint.rulefiles import Rule

__all__ = ["Check", "Subject", "listed", "near"]


@dataclass(frozen=True)
class Subject:
    """One rule with its expression, among all that is known."""

    rule: Rule
    expression: Expression
    context: Context


class Check(NamedTuple):
    """A check: its id, what it finds in one sentence, and how."""

    id: str
    what: str
    run: Callable[[Subject], Iterable[Finding]]


def near(name: str, known: Collection[str], *, cutoff: float = 0.75) -> str | None:
    """Return the name that one most likely meant."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)), None)


def listed(values: Iterable[str], *, most: int = 8) -> str:
    """List values for a message."""
    found = sorted(values)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
