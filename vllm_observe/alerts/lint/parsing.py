"""Reads PromQL. This is the only importer of promql-parser, which does the work."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import promql_parser

from vllm_observe.alerts.lint.expression import (
    Aggregation,
    Binary,
    Call,
    Expression,
    Matcher,
    Matching,
    Number,
    Selector,
    Subquery,
    Text,
)

__all__ = ["ExpressionError", "parse"]

#: The parser recurses on the machine's stack, which deep expressions overflow: no exception, the process
#: dies. Each level of depth costs one of these.
_NESTING = re.compile(r"[-+*/%^(<>=]|\b(?:and|or|unless|atan2)\b", re.IGNORECASE)
_MOST_NESTING = 800
_LONGEST = 50_000
#: How deep an expression may be: what walks it later recurses too.
_DEEPEST = 150
#: What Prometheus 2 calls double_exponential_smoothing, and the parser, which is of Prometheus 3, does not know.
_FORMER = re.compile(r"\bholt_winters(?=\s*\()")
_TOO_MUCH = "it is longer or deeper than any rule should be: record parts of it"


class ExpressionError(Exception):
    """It is no PromQL, or more of it than anybody writes."""


def parse(text: str) -> Expression:
    """Read PromQL.

    Raises:
        ExpressionError: it is none, in one line.
    """
    if len(text) > _LONGEST or len(_NESTING.findall(text)) > _MOST_NESTING:
        raise ExpressionError(_TOO_MUCH)
    try:
        return _read(promql_parser.parse(_FORMER.sub("double_exponential_smoothing", text)), 0)
    except ValueError as error:
        raise ExpressionError(" ".join(str(error).split())) from None


def _read(node: Any, depth: int) -> Expression:
    if depth > _DEEPEST:
        raise ExpressionError(_TOO_MUCH)
    return _READERS[type(node)](node, depth + 1)


# Its enumerations cannot be hashed, so they are told by their names.
_MATCH_OPERATORS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}
_GROUPED = {"ManyToOne": "left", "OneToMany": "right"}


def _name(member: object) -> str:
    return str(member).rpartition(".")[2]


def _selector(node: Any, window: float | None) -> Selector:
    matchers = [
        Matcher(matcher.name, _MATCH_OPERATORS[_name(matcher.op)], matcher.value)
        for matcher in node.matchers.matchers
    ]
    named = [matcher for matcher in matchers if matcher.label == "__name__" and matcher.operator == "="]
    return Selector(
        node.name or (named[0].value if named else ""),
        tuple(matcher for matcher in matchers if matcher not in named),
        window,
        _seconds(node.offset),
        _at(node),
    )


def _seconds(span: Any) -> float:
    return float(span.total_seconds()) if span else 0.0


def _at(node: Any) -> str:
    return str(node.at) if node.at else ""


def _aggregation(node: Any, depth: int) -> Aggregation:
    modifier = node.modifier
    return Aggregation(
        str(node.op),
        _read(node.expr, depth),
        tuple(modifier.labels) if modifier else (),
        bool(modifier) and modifier.type == promql_parser.AggModifierType.Without,
        _read(node.param, depth) if node.param is not None else None,
    )


def _binary(node: Any, depth: int) -> Binary:
    operator, modifier = str(node.op), node.modifier
    left, right = _read(node.lhs, depth), _read(node.rhs, depth)
    if modifier is None:
        return Binary(operator, left, right)
    on = modifier.matching
    matching = Matching(
        tuple(on.labels) if on else (),
        not on or on.type == promql_parser.LabelModifierType.Exclude,
        _GROUPED.get(_name(modifier.card), ""),
        tuple(modifier.group_labels or ()),
    )
    return Binary(operator, left, right, modifier.return_bool, matching)


_READERS: dict[type, Callable[[Any, int], Expression]] = {
    promql_parser.ParenExpr: lambda node, depth: _read(node.expr, depth),
    promql_parser.UnaryExpr: lambda node, depth: Binary("*", Number(-1.0), _read(node.expr, depth)),
    promql_parser.NumberLiteral: lambda node, _: Number(node.val),
    promql_parser.StringLiteral: lambda node, _: Text(node.val),
    promql_parser.VectorSelector: lambda node, _: _selector(node, None),
    promql_parser.MatrixSelector: lambda node, _: _selector(node.vector_selector, node.range.total_seconds()),
    promql_parser.Call: lambda node, depth: Call(
        node.func.name, tuple(_read(argument, depth) for argument in node.args)
    ),
    promql_parser.SubqueryExpr: lambda node, depth: Subquery(
        _read(node.expr, depth), _seconds(node.range), _seconds(node.offset), _at(node), _seconds(node.step)
    ),
    promql_parser.AggregateExpr: _aggregation,
    promql_parser.BinaryExpr: _binary,
}
