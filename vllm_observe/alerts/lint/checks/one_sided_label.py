"""Two sides that never meet: one has a label that the other lacks."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.context import LabelSet
from vllm_observe.alerts.lint.expression import Binary, Expression, has_series, selectors, walk
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, listed

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if not isinstance(part, Binary) or part.operator == "or":
            continue
        if has_series(part.left) and has_series(part.right):
            yield from _judge(part, subject)


def _judge(binary: Binary, subject: Subject) -> Iterator[Finding]:
    left, right = labels_of(binary.left, subject.context), labels_of(binary.right, subject.context)
    never: set[str] = set()
    hardly: set[str] = set()
    for one, other in ((left, right), (right, left)):
        for label in _grouped(one):
            if binary.matching.matches_on(label) and not other.possible(label):
                (never if label in one.certain else hardly).add(label)
    apart = [label for label in left.pinned & right.pinned if binary.matching.matches_on(label)]
    for label in sorted(apart):
        values = _pinned_at(label, binary.left), _pinned_at(label, binary.right)
        if None not in values and values[0] != values[1]:
            yield Finding(
                Level.ERROR,
                f'`{binary.operator}` has {label}="{values[0]}" on one side and "{values[1]}" on the other, so '
                f"{'it takes nothing away' if binary.operator == 'unless' else 'they never match'}: leave {label} out "
                "with `on` or `ignoring`, or aggregate it away",
            )
    mend = "aggregate both sides by the same labels, or leave it out with `ignoring`"
    effect = "`unless` takes nothing away" if binary.operator == "unless" else "they never match"
    if never:
        yield Finding(
            Level.ERROR,
            f"one side of `{binary.operator}` has {listed(never)} and the other has not, so {effect}: {mend}",
        )
    elif hardly:
        yield Finding(
            Level.WARNING,
            f"one side of `{binary.operator}` keeps {listed(hardly)} and the other has not, so where it is set {effect}: {mend}",
        )


def _pinned_at(label: str, side: Expression) -> str | None:
    """The one value at which matchers hold a label that stays."""
    matchers = (matcher for selector in selectors(side) for matcher in selector.matchers)
    values = {matcher.value for matcher in matchers if matcher.label == label and matcher.operator == "="}
    return values.pop() if len(values) == 1 else None


def _grouped(one: LabelSet) -> frozenset[str]:
    """The labels that are there for sure or were asked for."""
    return one.certain | one.names if one.closed else one.certain


CHECK = Check(
    "one-sided-label", "The sides of an operation never match: one has a label that the other lacks.", _run
)
