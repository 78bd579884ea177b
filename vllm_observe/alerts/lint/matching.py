"""Whether a matcher takes a value, as Prometheus would decide it."""

from __future__ import annotations

import re

from vllm_observe.alerts.lint.expression import Matcher

__all__ = ["accepts", "alternatives"]

#: Python's engine goes back and forth where Go's does not: a repeated group, or many repetitions, could
#: take for ever. Nobody needs them for the values of a label.
_COSTLY = re.compile(r"\)[*+{]")
_MOST_REPETITIONS = 3
_LONGEST = 1000
_PLAIN = re.compile(r"[\w:/. -]+(?:\|[\w:/. -]+)*")


def accepts(matcher: Matcher, value: str) -> bool | None:
    """Say whether a matcher takes a value; ``None`` where only Prometheus can tell."""
    if matcher.operator in {"=", "!="}:
        return (matcher.value == value) is (matcher.operator == "=")
    pattern = matcher.value
    if _COSTLY.search(pattern) or len(re.findall("[*+{]", pattern)) > _MOST_REPETITIONS:
        return None
    if len(pattern) > _LONGEST or len(value) > _LONGEST:
        return None
    try:
        found = re.fullmatch(pattern, value, re.DOTALL)
    except (re.error, RecursionError, OverflowError):  # Go's syntax is not quite Python's
        return None
    return (found is not None) is (matcher.operator == "=~")


def alternatives(matcher: Matcher) -> tuple[str, ...]:
    """Return the values that a matcher names: those of ``a|b`` and of ``a``; none of a real pattern."""
    if matcher.operator == "=":
        return (matcher.value,)
    if matcher.operator == "=~" and _PLAIN.fullmatch(matcher.value):
        return tuple(matcher.value.split("|"))
    return ()
