"""Boards as tests look at them: their panels and queries, with Grafana's macros and variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser

from vllm_observe.dashboards import Options, render
from vllm_observe.dashboards.variables import VARIABLES

__all__ = ["MACROS", "RENDERED", "Asked", "asked", "fill", "panels", "walk"]

Json = dict[str, Any]

RENDERINGS = {
    "sidecar": Options(),
    "0.6": Options(vllm_version="0.6.6.post1"),
    "ray": Options(metric_prefix="ray_vllm:"),
}
#: Every board under every set of options, by name.
RENDERED = {
    f"{how} {name}": board for how, options in RENDERINGS.items() for name, board in render(options).items()
}
#: What Grafana would put for its macros.
MACROS = {"__rate_interval": "1m", "__range_s": "3600", "__range": "1h"}


class Asked(NamedTuple):
    """A query of a rendered panel."""

    board: str
    panel: Json
    target: Json

    @property
    def expr(self) -> str:
        return self.target["expr"]

    @property
    def name(self) -> str:
        return f"{self.board}: {self.panel['title']} {self.target['refId']}"


def fill(promql: str, **picked: str) -> str:
    """Put values for macros and variables; what is not picked is All."""
    values = {name: variable.everything or ".+" for name, variable in VARIABLES.items()} | MACROS | picked
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], promql)


def panels(board: Json) -> Iterator[Json]:
    """Give all panels, those in folded rows too, and no rows."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def asked(options: Options | None = None) -> list[Asked]:
    """Return all queries of all boards."""
    return [
        Asked(name, panel, target)
        for name, board in render(options or Options()).items()
        for panel in panels(board)
        for target in panel["targets"]
    ]


def walk(expr: promql_parser.Expr) -> Iterator[promql_parser.Expr]:
    """Give an expression and all that it is made of."""
    yield expr
    for part in ("expr", "lhs", "rhs", "vector_selector", "param"):
        inner = getattr(expr, part, None)
        if inner is not None:
            yield from walk(inner)
    for argument in getattr(expr, "args", None) or ():
        yield from walk(argument)
