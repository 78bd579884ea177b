"""``absent`` over many servers at once."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Call, Selector, selectors, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

#: Labels that pick one server.
_ONE_SERVER = frozenset({"instance", "pod", "node", "hostname", "Hostname"})


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if not isinstance(part, Call) or not part.function.startswith("absent"):
            continue
        if not any(map(_picks_one, selectors(part))):
            yield Finding(
                Level.WARNING,
                f"{part.function}() is true only when every server is gone, and one of many is missed: "
                "compare with the past, as in `x offset 10m unless x`, or with up == 0",
            )


def _picks_one(selector: Selector) -> bool:
    return any(matcher.operator == "=" and matcher.label in _ONE_SERVER for matcher in selector.matchers)


CHECK = Check("global-absent", "absent() over several servers misses one that is gone.", _run)
