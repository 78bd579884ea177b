"""What stands for a board's variables and Grafana's macros in its queries."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vllm_observe.errors import ConfigError, VllmObserveError
from vllm_observe.preview.board import Board
from vllm_observe.preview.prometheus import Prometheus
from vllm_observe.preview.span import Span

__all__ = ["Filling"]

_NAME = re.compile(r"\$(\w+)|\[\[(\w+)(?::\w+)?\]\]|\$\{(\w+)(?::\w+)?(?:\.\w+)?\}")
_LABEL_VALUES = re.compile(
    r"\s*label_values\(\s*(?:(?P<selector>.+?)\s*,\s*)?(?P<label>\w+)\s*\)\s*", re.DOTALL
)
_ALL = "$__all"
#: As many values as one line can name.
_NAMED = 8
#: Characters that mean something in a regular expression; twice escaped within PromQL's quotation marks.
_SPECIAL = re.compile(r"[$^*{}\[\]'+?.()|\\]")


class Filling:
    """Puts values for variables and macros.

    Args:
        board: whose variables.
        picked: for some variables, the values that are picked; of the others it is all.
        prometheus: tells the values of a variable that has no expression for all of them.
        span: the time that is shown.

    Raises:
        ConfigError: the board has no such variable.
        VllmObserveError: a variable has no such value.
    """

    def __init__(
        self, board: Board, picked: Mapping[str, Sequence[str]], *, prometheus: Prometheus, span: Span
    ) -> None:
        known = [str(variable.get("name")) for variable in board.variables]
        for name in picked:
            if name not in known:
                raise ConfigError(
                    f"--variable {name}: the board has none of that name, only {', '.join(known)}"
                )
        self._span = span
        self._picked = picked
        self._values: dict[str, str] = {}
        for name, variable in zip(known, board.variables, strict=True):
            if name in picked:
                self._must_exist(name, picked[name], variable, prometheus)
                self._values[name] = _one_of([_escaped(value) for value in picked[name]])
            else:
                self._values[name] = self._unpicked(variable, prometheus)

    def __str__(self) -> str:
        """Say what is picked."""
        told = (f"{name} {' + '.join(values)}" for name, values in self._picked.items())
        return ", ".join(told) or "nothing picked"

    def _must_exist(
        self, name: str, picked: Sequence[str], variable: Mapping[str, Any], prometheus: Prometheus
    ) -> None:
        there = self._listed(variable, prometheus) if variable.get("type") == "query" else []
        for value in picked:
            if there and value and value not in there:
                more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
                raise VllmObserveError(
                    f"--variable {name}={value}: there is no such value in that time, only "
                    f"{', '.join(there[:_NAMED])}{more}"
                )

    def _unpicked(self, variable: Mapping[str, Any], prometheus: Prometheus) -> str:
        current = variable.get("current")
        value = current.get("value") if isinstance(current, dict) else None
        values = [
            str(one) for one in (value if isinstance(value, list) else [value]) if one not in {None, ""}
        ]
        if variable.get("type") != "query":
            return _one_of(values) or str(variable.get("query") or "")
        if values and _ALL not in values:
            return _one_of([_escaped(one) for one in values])
        if variable.get("allValue"):
            return str(variable["allValue"])
        return _one_of([_escaped(one) for one in self._listed(variable, prometheus)]) or ".*"

    def _listed(self, variable: Mapping[str, Any], prometheus: Prometheus) -> list[str]:
        query = variable.get("query")
        text = query.get("query") if isinstance(query, dict) else query
        found = _LABEL_VALUES.fullmatch(self.fill(str(text), step=self._span.step(1)))
        if found is None:
            return []
        return prometheus.label_values(
            found["label"], selector=found["selector"] or "", start=self._span.start, end=self._span.end
        )

    def fill(self, promql: str, *, step: float) -> str:
        """Return PromQL that Prometheus understands.

        Args:
            promql: as the board holds it.
            step: seconds between two points.
        """
        seconds = self._span.end - self._span.start
        macros = {
            "__interval": f"{step:g}s",
            "__interval_ms": f"{step * 1000:g}",
            "__rate_interval": f"{max(step + self._span.scrape_interval, 4 * self._span.scrape_interval):g}s",
            "__range": f"{math.ceil(seconds)}s",
            "__range_s": f"{math.ceil(seconds)}",
            "__range_ms": f"{math.ceil(seconds * 1000)}",
        }
        values = self._values | macros

        def value(found: re.Match[str]) -> str:
            return values.get(next(name for name in found.groups() if name), found[0])

        return _NAME.sub(value, promql)


def _escaped(value: str) -> str:
    return _SPECIAL.sub(r"\\\\\g<0>", value).replace('"', r"\"")


def _one_of(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"({'|'.join(values)})" if values else ""
