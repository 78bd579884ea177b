"""Operations with several series of one side for one of the other, without ``group_left``."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.context import LabelSet
from vllm_observe.alerts.lint.expression import SET_OPERATORS, Binary, has_series, walk
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, listed

__all__ = ["CHECK"]

#: One server has one of each.
_OF_A_SERVER = frozenset({"job", "model_name"})


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if not isinstance(part, Binary) or part.operator in SET_OPERATORS:
            continue
        if not (has_series(part.left) and has_series(part.right)):
            continue
        left, right = (_more(labels_of(side, subject.context), part) for side in (part.left, part.right))
        group = part.matching.group
        if (left and group != "left") or (right and group != "right"):
            sides = left | right if not group else (right if group == "left" else left)
            yield Finding(
                Level.WARNING,
                f"several series can match one in `{part.operator}`, as {listed(sides)} may differ among them: "
                + (
                    "aggregate them away"
                    if group or (left and right)
                    else f"aggregate them away, or add group_{'left' if left else 'right'}"
                ),
            )


def _more(side: LabelSet, binary: Binary) -> frozenset[str]:
    """The labels that tell series of a side apart and are not matched on."""
    matched = frozenset(filter(binary.matching.matches_on, side.certain))
    alike = _OF_A_SERVER if "instance" in matched else frozenset({"job"})
    return side.certain - side.pinned - matched - alike


CHECK = Check(
    "many-to-one", "Several series can match one, and there is no `group_left` or `group_right`.", _run
)
