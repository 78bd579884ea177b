"""The guards of an expression: what it says after ``and``, ``or`` and ``unless``, at any depth."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["without_one"]

_OPERATOR = re.compile(r"\s(and|or|unless)\s")
_MATCHING = re.compile(r"on \([^)]*\) ")


def without_one(expr: str) -> Iterator[tuple[str, str]]:
    """Give what was left out and what remains, for each operand of a set operator that can be left out.

    Of ``a and b`` only ``b`` can: without ``a`` it would be another alert.
    """
    for start, end in _ranges(expr):
        operands = _operands(expr, start, end)
        for at, until, operator in operands:
            if operator:
                yield expr[at:until].strip(), expr[:at] + expr[until:]
            elif len(operands) > 1 and operands[1][2] == "or":
                begin = operands[1][0] + len(" or ")
                matched = _MATCHING.match(expr, begin)
                yield expr[at:until].strip(), expr[:at] + expr[matched.end() if matched else begin :]


def _ranges(expr: str) -> Iterator[tuple[int, int]]:
    """The whole, and what stands in each pair of parentheses."""
    yield 0, len(expr)
    opened = []
    for at, sign in _signs(expr):
        if sign == "(":
            opened.append(at)
        elif sign == ")":
            yield opened.pop() + 1, at


def _operands(expr: str, start: int, end: int) -> list[tuple[int, int, str]]:
    """What the set operators of one depth join: where each begins, with its operator, and ends."""
    depth, plain = 0, []
    for at, sign in _signs(expr[start:end]):
        depth += (sign == "(") - (sign == ")")
        if not depth and sign.isspace():
            plain.append(start + at)
    found = [(at, match[1]) for at in plain if (match := _OPERATOR.match(expr, at, end))]
    starts = [(start, ""), *found]
    ends = [at for at, _ in found] + [end]
    return [(at, until, operator) for (at, operator), until in zip(starts, ends, strict=True)]


def _signs(expr: str) -> Iterator[tuple[int, str]]:
    """The characters outside of quotes."""
    quoted = False
    for at, sign in enumerate(expr):
        quoted ^= sign == '"'
        if not quoted:
            yield at, sign
