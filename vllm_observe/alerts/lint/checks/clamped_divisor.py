"""Divisors that are kept above what a quiet server reaches, so that the ratio is too small there."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Binary, Call, Expression, constant, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

_CLAMPS = frozenset({"clamp_min", "clamp"})
_RATES = frozenset({"rate", "irate"})
#: One in a hundred seconds: whatever is rarer is no traffic to alert on.
_QUIET = 0.01


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if not isinstance(part, Binary) or part.operator != "/":
            continue
        least = _least(part.right)
        if least is not None and least > _QUIET and _is_rate(part.right):
            yield Finding(
                Level.WARNING,
                f"the divisor is taken for {least:g} a second where it is less, and the ratio is too small there: "
                "write / (… > 0)",
            )


def _least(divisor: Expression) -> float | None:
    if isinstance(divisor, Call) and divisor.function in _CLAMPS:
        return constant(divisor.arguments[1])
    return None


def _is_rate(divisor: Expression) -> bool:
    return any(isinstance(part, Call) and part.function in _RATES for part, _ in walk(divisor))


CHECK = Check(
    "clamped-divisor", "A rate is kept above what quiet servers have, so a ratio is too small there.", _run
)
