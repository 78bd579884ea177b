"""Divisions by what may be 0, where the result is then NaN and every comparison false."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import (
    Binary,
    Call,
    Expression,
    comparisons,
    constant,
    has_series,
    selectors,
    walk,
)
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    for comparison in comparisons(subject.expression):
        if comparison.operator not in {"<", "<="}:
            continue
        for part, _ in walk(comparison.of):
            if (
                isinstance(part, Binary)
                and part.operator == "/"
                and has_series(part.right)
                and _may_be_zero(part.right)
            ):
                yield Finding(
                    Level.INFO,
                    f"the ratio is NaN and {comparison.operator} {comparison.bound:g} silent while there is "
                    "no traffic: write / (… > 0), so that it reads as meant",
                )
                break


def _may_be_zero(divisor: Expression) -> bool:
    """Whether nothing keeps a divisor from being 0: a rate of nothing is."""
    if isinstance(divisor, Call) and divisor.function in {"clamp_min", "clamp"}:
        return False
    for part, _ in walk(divisor):
        if isinstance(part, Binary) and part.compares and constant(part.right) is not None:
            return False
    # What never is 0 cannot be told, but a limit is one.
    return not all(part.name.endswith(("max_num_seqs", "_capacity_tokens")) for part in selectors(divisor))


CHECK = Check(
    "unguarded-ratio", "A ratio that is NaN without traffic is compared with `<`, which is then silent.", _run
)
