"""What is never more than something else, whatever the values: itself, and a window's least and its most.

A window without an offset ends with the sample that an instant vector reads: the most of it is no less than
the value now, and no less than the mean of any shorter window.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from vllm_observe.alerts.lint.expression import Call, Expression, Selector

__all__ = ["at_most"]

#: Functions of a window, by where they lie among its samples.
_LOWEST, _WITHIN, _HIGHEST = "min_over_time", frozenset({"avg_over_time", "last_over_time"}), "max_over_time"


class _Window(NamedTuple):
    """Some of a window's samples: a function of them, and the seconds; 0 for the sample now."""

    of: Expression
    function: str
    seconds: float


def at_most(one: Expression, other: Expression) -> bool:
    """Whether one is never more than the other, for the same labels."""
    if one == other:
        return True
    left, right = _window(one), _window(other)
    if left is None or right is None or left.of != right.of:
        return False
    return (right.function == _HIGHEST and right.seconds >= left.seconds) or (
        left.function == _LOWEST and left.seconds >= right.seconds
    )


def _window(expression: Expression) -> _Window | None:
    if isinstance(expression, Selector) and expression.window is None:
        return _Window(expression, "", 0.0)
    if not isinstance(expression, Call) or expression.function not in {_LOWEST, _HIGHEST, *_WITHIN}:
        return None
    samples = expression.arguments[0]
    if not isinstance(samples, Selector) or samples.window is None:
        return None
    return _Window(replace(samples, window=None), expression.function, samples.window)
