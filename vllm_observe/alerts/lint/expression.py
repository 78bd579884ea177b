"""PromQL as plain values, and what can be told of them without knowing any metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan
from typing import TypeAlias, TypeGuard

__all__ = [
    "SET_OPERATORS",
    "Aggregation",
    "Binary",
    "Call",
    "Comparison",
    "Expression",
    "Matcher",
    "Matching",
    "Number",
    "Selector",
    "Subquery",
    "Text",
    "argument",
    "bare",
    "children",
    "comparisons",
    "constant",
    "filters",
    "has_series",
    "is_nan",
    "keeps_right",
    "selectors",
    "walk",
]

COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
SET_OPERATORS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True)
class Matcher:
    """One condition on a label; ``operator`` is one of ``=``, ``!=``, ``=~`` and ``!~``."""

    label: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f'{self.label}{self.operator}"{self.value}"'


@dataclass(frozen=True)
class Selector:
    """Series by name and labels; with a window in seconds it is a range vector."""

    name: str  # empty where only matchers say
    matchers: tuple[Matcher, ...] = ()
    window: float | None = None
    offset: float = 0.0
    at: str = ""  # the time that it is asked for, as it is written


@dataclass(frozen=True)
class Number:
    """A number."""

    value: float


@dataclass(frozen=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True)
class Call:
    """A function of its arguments."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Aggregation:
    """Many series made few: ``labels`` are those that stay, or that go where it is ``without`` them."""

    operator: str
    of: Expression
    labels: tuple[str, ...] = ()
    without: bool = False
    parameter: Expression | None = None


@dataclass(frozen=True)
class Matching:
    """Which series of two sides belong together.

    ``labels`` are all that count or, with ``ignoring``, all that do not; ``group`` is ``left`` or
    ``right`` where that side may have many for one of the other, which lends it the labels of ``include``.
    """

    labels: tuple[str, ...] = ()
    ignoring: bool = True
    group: str = ""
    include: tuple[str, ...] = ()

    def matches_on(self, label: str) -> bool:
        """Whether a label must be equal on both sides."""
        return (label in self.labels) is not self.ignoring


@dataclass(frozen=True)
class Binary:
    """Two sides and what is done with them; ``as_bool`` gives 0 and 1 where a comparison would filter."""

    operator: str
    left: Expression
    right: Expression
    as_bool: bool = False
    matching: Matching = Matching()

    @property
    def compares(self) -> bool:
        """Whether it is a comparison."""
        return self.operator in COMPARISONS


@dataclass(frozen=True)
class Subquery:
    """An expression at many times within a window of seconds."""

    of: Expression
    window: float
    offset: float = 0.0
    at: str = ""
    step: float = 0.0  # 0 for Prometheus's own


Expression: TypeAlias = Selector | Number | Text | Call | Aggregation | Binary | Subquery


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return what an expression is directly made of."""
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Binary):
        return expression.left, expression.right
    if isinstance(expression, (Aggregation, Subquery)):
        return (expression.of,)
    return ()


def walk(
    expression: Expression, above: tuple[Expression, ...] = ()
) -> Iterator[tuple[Expression, tuple[Expression, ...]]]:
    """Give each part of an expression with what it stands in, the innermost last."""
    yield expression, above
    for child in children(expression):
        yield from walk(child, (*above, expression))


def selectors(expression: Expression) -> Iterator[Selector]:
    """Give all selectors of an expression."""
    return (part for part, _ in walk(expression) if isinstance(part, Selector))


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b if b else float("nan"),
}


def constant(expression: Expression) -> float | None:
    """Return the number that an expression always is."""
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Binary) and expression.operator in _ARITHMETIC:
        left, right = constant(expression.left), constant(expression.right)
        if left is not None and right is not None:
            return _ARITHMETIC[expression.operator](left, right)
    if isinstance(expression, Call) and expression.function in {"scalar", "vector"}:
        return constant(expression.arguments[0])
    return None


def is_nan(expression: Expression) -> bool:
    """Whether an expression always is NaN, which equals nothing, itself included."""
    number = constant(expression)
    return number is not None and isnan(number)


def has_series(expression: Expression) -> bool:
    """Whether an expression is a set of series, and not just a number."""
    if isinstance(expression, Binary):
        return has_series(expression.left) or has_series(expression.right)
    if isinstance(expression, Call):
        return expression.function not in {"scalar", "time", "pi"}
    return not isinstance(expression, (Number, Text))


def argument(call: Call) -> Expression | None:
    """Return the argument whose series a function goes through, wherever it stands; ``None`` for none."""
    return next(filter(has_series, call.arguments), None)


def filters(expression: Expression) -> TypeGuard[Binary]:
    """Whether it is a comparison that leaves series out."""
    return isinstance(expression, Binary) and expression.compares and not expression.as_bool


def keeps_right(comparison: Binary) -> bool:
    """Whether a comparison keeps series of its right side: where the left one is a number."""
    return has_series(comparison.right) and not has_series(comparison.left)


def bare(expression: Expression) -> Expression:
    """Return an expression without what filters its series: that whose values it has."""
    while isinstance(expression, Binary) and (
        filters(expression) or expression.operator in {"and", "unless"}
    ):
        right = filters(expression) and keeps_right(expression)
        expression = expression.right if right else expression.left
    return expression


@dataclass(frozen=True)
class Comparison:
    """Something compared with a number, that put to the right."""

    of: Expression
    operator: str
    bound: float
    at: Binary


_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def comparisons(expression: Expression) -> Iterator[Comparison]:
    """Give all comparisons with a number."""
    for part, _ in walk(expression):
        if not isinstance(part, Binary) or not part.compares:
            continue
        left, right = constant(part.left), constant(part.right)
        if right is not None and left is None:
            yield Comparison(part.left, part.operator, right, part)
        elif left is not None and right is None:
            yield Comparison(part.right, _TURNED.get(part.operator, part.operator), left, part)
