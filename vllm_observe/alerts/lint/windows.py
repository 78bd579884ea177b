"""Over how long a time an expression must hold to be true."""

from __future__ import annotations

from math import inf

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import Aggregation, Binary, Call, Expression, Selector, Subquery

__all__ = ["window_of"]

#: Functions of a window that look at one sample of it.
_OF_ONE_SAMPLE = frozenset({"last_over_time", "present_over_time", "first_over_time", "irate", "idelta"})


def window_of(expression: Expression, context: Context) -> float:
    """Return the seconds over which an expression takes the mean, the growth or the like; 0 for none."""
    window = _window(expression, context)
    return 0.0 if window == inf else window


def _window(expression: Expression, context: Context) -> float:  # noqa: PLR0911  # one for each kind of node
    """The same, with ``inf`` for what stays as it is meanwhile: numbers, and the past."""
    if isinstance(expression, Selector):
        recorded = context.recordings.get(expression.name)
        return inf if expression.offset else expression.window or (recorded.window if recorded else 0.0)
    if isinstance(expression, Subquery):
        return max(expression.window, window_of(expression.of, context))
    if isinstance(expression, Aggregation):
        return _window(expression.of, context)
    if isinstance(expression, Call):
        if expression.function in _OF_ONE_SAMPLE:
            return 0.0
        return min((_window(argument, context) for argument in expression.arguments), default=inf)
    if not isinstance(expression, Binary) or expression.operator == "unless":
        return _window(expression.left, context) if isinstance(expression, Binary) else inf
    sides = _window(expression.left, context), _window(expression.right, context)
    if expression.operator in {"and", "or"}:  # either side keeps it from coming and going
        return max((side for side in sides if side != inf), default=inf)
    return min(sides)
