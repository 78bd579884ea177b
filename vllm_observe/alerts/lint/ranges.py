"""Ranges of numbers, and what a comparison leaves of them."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isinf, isnan, nextafter
from typing import NamedTuple

__all__ = ["ALL", "NEGATED", "NOTHING", "NOT_BELOW_0", "TURNED", "Range", "covered", "exactly"]

#: The comparison with its sides changed over, and the one that holds where it does not.
TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}
NEGATED = {">": "<=", "<": ">=", ">=": "<", "<=": ">", "==": "!=", "!=": "=="}


class Range(NamedTuple):
    """All numbers between two, these included; none where the lower is above the higher.

    Above 5 begins at the next number that a float can be: Prometheus has no others. That something may be
    NaN is not told: no comparison but ``!=`` holds for it.
    """

    low: float
    high: float

    @property
    def empty(self) -> bool:
        """Whether no number is in it."""
        return self.low > self.high

    def meet(self, other: Range) -> Range:
        """Return what is in both."""
        return Range(max(self.low, other.low), min(self.high, other.high))

    def join(self, other: Range) -> Range:
        """Return the least that holds both."""
        if self.empty or other.empty:
            return other if self.empty else self
        return Range(min(self.low, other.low), max(self.high, other.high))

    def plus(self, other: Range) -> Range:
        """Return the sums."""
        return _around(self, other, (_sum(self.low, other.low, -inf), _sum(self.high, other.high, inf)))

    def minus(self, other: Range) -> Range:
        """Return the differences."""
        return self.plus(Range(-other.high, -other.low))

    def times(self, other: Range) -> Range:
        """Return the products."""
        return _around(self, other, (_product(one, two) for one in self for two in other))

    def over(self, other: Range) -> Range:
        """Return the quotients; of what may be 0 they are without a bound."""
        if other.low > 0 or other.high < 0:
            return _around(self, other, (_quotient(one, two) for one in self for two in other))
        unsigned = self.low >= 0 and other.low >= 0
        return _around(self, other, (0.0 if unsigned else -inf, inf))

    def where(self, operator: str, other: Range) -> Range:
        """Return what may be left when its numbers are compared with some of another range."""
        if self.empty or other.empty:
            return NOTHING
        if operator == "==":
            return self.meet(other)
        if operator in {">", ">="}:
            return self.meet(_from(other.low, strictly=operator == ">"))
        if operator in {"<", "<="}:
            upward = _from(-other.high, strictly=operator == "<")
            return self.meet(Range(-upward.high, -upward.low))
        return self

    def __str__(self) -> str:
        """Say it in a message, after what it is about."""
        if self.low == self.high:
            return f"is always {self.low:g}"
        if self.low == -inf:
            return f"is never above {self.high:g}"
        if self.high == inf:
            return f"is never below {self.low:g}"
        return f"goes from {self.low:g} to {self.high:g}"


ALL = Range(-inf, inf)
NOTHING = Range(inf, -inf)
NOT_BELOW_0 = Range(0.0, inf)


def exactly(operator: str, bound: float) -> tuple[Range, ...]:
    """Return the numbers for which a comparison with a bound holds, as ranges."""
    if operator == "!=":
        return tuple(ALL.where(half, Range(bound, bound)) for half in "<>")
    return (ALL.where(operator, Range(bound, bound)),)


def covered(whole: Range, parts: Iterable[Range]) -> bool:
    """Whether each number of a range is in one of some others."""
    reached = whole.low
    for part in sorted(parts):
        if part.empty:
            continue
        if part.low > reached:
            return False
        if part.high >= whole.high:
            return True
        reached = max(reached, nextafter(part.high, inf))
    return False


def _from(bound: float, *, strictly: bool) -> Range:
    if strictly and bound == inf:
        return NOTHING
    return Range(nextafter(bound, inf) if strictly else bound, inf)


def _sum(one: float, other: float, otherwise: float) -> float:
    total = one + other
    return otherwise if isnan(total) else total


def _product(one: float, other: float) -> float:
    return 0.0 if 0.0 in (one, other) else one * other


def _quotient(one: float, other: float) -> float:
    return 0.0 if isinf(other) else one / other  # of two infinite ends it is somewhere between the others


def _around(one: Range, other: Range, numbers: Iterable[float]) -> Range:
    if one.empty or other.empty:
        return NOTHING
    found = tuple(numbers)
    return Range(min(found), max(found))
