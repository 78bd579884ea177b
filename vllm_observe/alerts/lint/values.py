"""Which values an expression can take: what never holds, and what always does, follows from that.

Each part of an expression has a range: of what Prometheus's functions give, of what our tables know about
a metric, and of what comparisons leave. ``and`` and ``unless`` ask several things of the same series: these
are kept as conditions, by what they are about, and have to hold together. A range is rather too wide than
too narrow, so that what is empty is so for certain.
"""

from __future__ import annotations

from collections.abc import Mapping

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import (
    SET_OPERATORS,
    Aggregation,
    Binary,
    Call,
    Expression,
    Matching,
    Number,
    Selector,
    Subquery,
    Text,
    bare,
    constant,
    filters,
    has_series,
    is_nan,
    keeps_right,
    selectors,
)
from vllm_observe.alerts.lint.functions import AGGREGATED, ARITHMETIC, CALLED, OF_NOTHING, SHARE, is_share
from vllm_observe.alerts.lint.known import ONES, SWITCHES
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.order import at_most
from vllm_observe.alerts.lint.ranges import (
    ALL,
    NEGATED,
    NOT_BELOW_0,
    NOTHING,
    TURNED,
    Range,
    covered,
    exactly,
)
from vllm_observe.alerts.lint.tables import described
from vllm_observe.alerts.lint.units import quantity
from vllm_observe.model import Kind

__all__ = ["Conditions", "Values"]

#: What is asked of series, by what they measure.
Conditions = Mapping[Expression, Range]

_NOT_ABOVE_0 = Range(-NOT_BELOW_0.high, 0.0)
#: The one metric in our tables that may be below 0.
_SIGNED = frozenset({"vllm_observe_clock_skew_seconds"})
_COUNTERS = ("_total", "_bucket", "_count")


class Values:
    """Knows the ranges of one rule's expression and of its parts.

    Args:
        context: what is known of metrics and of recording rules.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        # By identity: the parts live as long as the rule, and to hash one is to walk all of it.
        self._known: dict[int, tuple[Expression, Range]] = {}

    def of(self, expression: Expression) -> Range:
        """Return the values that an expression can have; NaN, which nearly all can, apart."""
        if id(expression) not in self._known:
            self._known[id(expression)] = expression, self._range(expression)
        return self._known[id(expression)][1]

    def conditions(self, expression: Expression) -> Conditions:
        """Return what holds for all series of an expression."""
        if not isinstance(expression, Binary):
            return {}
        if expression.operator == "and":
            return self._both(expression)
        if expression.operator == "unless":
            return self._rest(expression)
        if expression.operator == "or":
            left, right = self.conditions(expression.left), self.conditions(expression.right)
            return {about: left[about].join(right[about]) for about in left if about in right}
        if filters(expression):
            return self._filtered(expression)
        return {}

    def difference(self, binary: Binary) -> Range:
        """Return what the left side can be more than the right one, series by series."""
        left, right = bare(binary.left), bare(binary.right)
        found = self._apart(binary)
        if found.empty or not self.aligned(left, binary.matching):
            return found
        if at_most(left, right):
            found = found.meet(_NOT_ABOVE_0)
        return found.meet(NOT_BELOW_0) if at_most(right, left) else found

    def never(self, comparison: Binary) -> bool:
        """Whether a comparison holds for no value. ``!=`` does for NaN, which is how one asks for that."""
        if comparison.operator != "!=" and (is_nan(comparison.left) or is_nan(comparison.right)):
            return True
        return (
            comparison.operator != "!="
            and self.difference(comparison).where(comparison.operator, Range(0.0, 0.0)).empty
        )

    def always(self, comparison: Binary) -> bool:
        """Whether a comparison holds for every value but NaN."""
        difference, zero = self.difference(comparison), Range(0.0, 0.0)
        if comparison.operator == "==":
            return difference == zero
        return not difference.empty and difference.where(NEGATED[comparison.operator], zero).empty

    def decided_by_ranges(self, comparison: Binary) -> bool:
        """Whether the ranges of its sides, each for itself, let a comparison come out in one way only."""
        zero = Range(0.0, 0.0)
        ways = (comparison.operator, NEGATED[comparison.operator])
        return any(self._apart(comparison).where(way, zero).empty for way in ways)

    def alike(self, binary: Binary) -> bool:
        """Whether both sides of an operation have the same series, and each meets itself."""
        side = bare(binary.left)
        return side == bare(binary.right) and has_series(side) and self.aligned(side, binary.matching)

    def all_covered(self, either: Binary) -> bool:
        """Whether the sides of an ``or``, both about the same series, leave no value out."""
        sides = self._asked(either.left), self._asked(either.right)
        if sides[0] is None or sides[1] is None or sides[0][0] != sides[1][0]:
            return False
        about = sides[0][0]
        parts = [part for _, operator, bound in filter(None, sides) for part in exactly(operator, bound)]
        return self.aligned(about, either.matching) and covered(self.of(about), parts)

    def aligned(self, expression: Expression, matching: Matching) -> bool:
        """Whether an expression on both sides of an operation meets itself, and not other series of its own."""
        labels = labels_of(expression, self._context)
        if matching.ignoring:
            return not any(map(labels.possible, matching.labels))
        return labels.closed and labels.names <= frozenset(matching.labels)

    def _apart(self, binary: Binary) -> Range:
        return self.of(binary.left).minus(self.of(binary.right))

    # --- What series are asked ------------------------------------------------------------------------

    def _filtered(self, comparison: Binary) -> Conditions:
        kept, other, operator = _oriented(comparison)
        about, found = bare(kept), dict(self.conditions(kept))
        found[about] = found.get(about, self.of(about)).where(operator, self.of(other))
        if has_series(kept) and has_series(other):
            return {key: asked for key, asked in found.items() if self.aligned(key, comparison.matching)}
        return found

    def _both(self, binary: Binary) -> Conditions:
        found = dict(self.conditions(binary.left))
        for about, asked in self.conditions(binary.right).items():
            if self.aligned(about, binary.matching):
                found[about] = found.get(about, asked).meet(asked)
        return found

    def _rest(self, binary: Binary) -> Conditions:
        found = dict(self.conditions(binary.left))
        taken, about = self._asked(binary.right), bare(binary.left)
        if binary.right == about and self.aligned(about, binary.matching):
            return {**found, about: NOTHING}
        # Only of what was compared before: of all else NaN is left, and to ask for that is right.
        if taken is not None and taken[0] in found and self.aligned(taken[0], binary.matching):
            about, operator, bound = taken
            found[about] = found[about].where(NEGATED[operator], Range(bound, bound))
        return found

    def _asked(self, expression: Expression) -> tuple[Expression, str, float] | None:
        """Read a comparison of unfiltered series with a number, and nothing more: these, how, with which."""
        if not filters(expression):
            return None
        kept, other, operator = _oriented(expression)
        bound = constant(other)
        return (kept, operator, bound) if bound is not None and bare(kept) == kept else None

    # --- Ranges ---------------------------------------------------------------------------------------

    def _range(self, expression: Expression) -> Range:
        if isinstance(expression, Number):
            return Range(expression.value, expression.value) if expression.value == expression.value else ALL
        if isinstance(expression, Selector):
            return self._of_selector(expression)
        if isinstance(expression, Subquery):
            return self.of(expression.of)
        if isinstance(expression, Aggregation):
            return self._of_aggregation(expression)
        if isinstance(expression, Call):
            return self._of_call(expression)
        return self._of_binary(expression) if isinstance(expression, Binary) else ALL

    def _of_selector(self, selector: Selector) -> Range:
        name = selector.name
        if name in self._context.recordings:
            return self._context.recordings[name].values
        metric = self._context.metric(name)
        family = metric.family if metric is not None else name
        if family in SWITCHES:
            return SHARE
        if family in ONES:
            return Range(1.0, 1.0)
        if (metric is not None and metric.kind is Kind.COUNTER) or name.endswith(_COUNTERS):
            return NOT_BELOW_0
        if described(name) is None or name in _SIGNED:
            return ALL
        found = quantity(selector, self._context)
        return SHARE if found is not None and found.share else NOT_BELOW_0

    def _of_aggregation(self, aggregation: Aggregation) -> Range:
        values, parameter = self.of(aggregation.of), aggregation.parameter
        given = ALL if parameter is None else self.of(parameter)
        return NOTHING if values.empty else AGGREGATED.get(aggregation.operator, _anything)(values, given)

    def _of_call(self, call: Call) -> Range:
        series = [argument for argument in call.arguments if not isinstance(argument, Text)]
        ranges = [self.of(argument) for argument in series]
        if call.function not in OF_NOTHING and any(found.empty for found in ranges):
            return NOTHING
        if call.function == "histogram_quantile":
            known = all(described(part.name) for part in selectors(series[1]))
            return NOT_BELOW_0 if known and is_share(ranges[0]) else ALL
        return CALLED.get(call.function, _anything)(*ranges)

    def _of_binary(self, binary: Binary) -> Range:
        left, right = self.of(binary.left), self.of(binary.right)
        if binary.operator == "or":
            return left.join(right)
        if left.empty or (right.empty and binary.operator != "unless"):
            return NOTHING
        if binary.operator in SET_OPERATORS or filters(binary):
            return self._kept(binary)
        if binary.compares:
            return Range(0.0, 0.0) if self.never(binary) else SHARE
        return self._calculated(binary, left, right)

    def _kept(self, binary: Binary) -> Range:
        conditions = self.conditions(binary)
        if any(asked.empty for asked in conditions.values()) or (binary.compares and self.never(binary)):
            return NOTHING
        kept = _oriented(binary)[0] if binary.compares else binary.left
        return self.of(kept).meet(conditions.get(bare(kept), ALL))

    def _calculated(self, binary: Binary, left: Range, right: Range) -> Range:
        if binary.operator == "-":
            return self.difference(binary)
        if binary.operator == "/" and self.alike(binary):
            return Range(1.0, 1.0)
        return ARITHMETIC.get(binary.operator, _anything)(left, right)


def _anything(*_: Range) -> Range:
    return ALL


def _oriented(comparison: Binary) -> tuple[Expression, Expression, str]:
    """Return the side whose series are kept, the other, and how they compare in that order."""
    if keeps_right(comparison):
        return comparison.right, comparison.left, TURNED[comparison.operator]
    return comparison.left, comparison.right, comparison.operator
