"""Boards put to a Prometheus: which panels have data, and which should have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import promql_parser

from support.boards import fill, walk
from support.prometheus import Prometheus
from vllm_observe.dashboards import BOARDS, Options
from vllm_observe.dashboards.panels import Query
from vllm_observe.model import ServiceClass

#: A share of nothing is not drawn, nor a quantile of nothing.
_GUARDED = re.compile(r"> 0|histogram_quantile")
#: What is asked of the servers of one class.
_OF_BATCH = re.compile(r'and on \([^)]*\) \w+\{[^{}]*service_class="batch"')
_OF_OTHERS = re.compile(r'unless on \([^)]*\) \w+\{[^{}]*service_class="batch"')


class Has(Enum):
    """What a panel has of one server."""

    DATA = "data"
    NOTHING_YET = "nothing yet"  # the release has the signal, and nothing of the kind happened
    NO_SIGNAL = "no signal"  # the release does not expose it, or what it needs is not used


@dataclass(frozen=True)
class Proven:
    """A panel that was asked: what it has, and its queries that should have had an answer and have none."""

    board: str
    panel: str
    has: Has
    blank: tuple[str, ...]


class Server:
    """One server in a Prometheus, as boards are asked for it.

    Args:
        prometheus: holds it.
        job, instance: the server.
        options: how the boards are rendered.
        service_class: its latency class.
        has: metrics that must be there, by their names of today; what else is there is seen.
        start, end: the time that is looked at.
    """

    def __init__(
        self,
        prometheus: Prometheus,
        *,
        job: str,
        instance: str,
        options: Options,
        service_class: ServiceClass = ServiceClass.INTERACTIVE,
        has: frozenset[str] = frozenset(),
        start: float,
        end: float,
        step: float = 30.0,
    ) -> None:
        self._prometheus, self._options, self._has = prometheus, options, has
        self._grown: dict[str, bool] = {}
        self._others = _OF_OTHERS if service_class is ServiceClass.BATCH else _OF_BATCH
        self._time = {"start": start, "end": end, "step": step}
        # Dots in brackets: promql_parser writes a backslash of a selector once where PromQL wants two.
        self._picked = {"job": job, "instance": instance.replace(".", "[.]")}

    def proven(self) -> Iterator[Proven]:
        """Ask all panels that this rendering shows."""
        for board in BOARDS:
            if board.of_sidecar and not self._options.behind_sidecar:
                continue
            for panel in filter(self._options.shows, board.panels):
                asked = [query for query in panel.asked if self._options.answers(query.expr)]
                answered = [self._answers(query) for query in asked]
                blank = [
                    self._promql(query)
                    for query, answers in zip(asked, answered, strict=True)
                    if not answers and self._must_answer(query)
                ]
                signal = any(self._exists(way) for query in asked for way in query.expr.ways)
                silent = Has.NOTHING_YET if signal else Has.NO_SIGNAL
                yield Proven(board.name, panel.title, Has.DATA if any(answered) else silent, tuple(blank))

    def _promql(self, query: Query) -> str:
        return fill(self._options.text(query.expr.text), **self._picked)

    def _answers(self, query: Query) -> bool:
        found = self._prometheus.over(self._promql(query), **self._time)
        return any(not math.isnan(value) for course in found for value in course.values)

    def _must_answer(self, query: Query) -> bool:
        if self._others.search(query.expr.text):  # it asks for servers of the other class
            return False
        guarded = _GUARDED.search(query.expr.text) is not None
        return any(
            self._exists(way) and (not guarded or all(self._happened(name, query) for name in way))
            for way in query.expr.ways
        )

    def _happened(self, name: str, query: Query) -> bool:
        """Whether what a query selects of a counter or a histogram grew; a gauge need not.

        What must be there and is not excuses nothing.
        """
        stored = self._stored(name)
        if stored not in self._courses or not stored.endswith(("_total", "_count")):
            return True
        stem = stored.removesuffix("_count")
        return all(
            self._grew(str(selector))
            for selector in _selectors(self._promql(query))
            if selector.name in {stored, f"{stem}_sum", f"{stem}_bucket"}
        )

    def _grew(self, selector: str) -> bool:
        if selector not in self._grown:
            found = self._prometheus.over(f"sum({selector})", **self._time)
            self._grown[selector] = any(max(one.values) > min(one.values) for one in found)
        return self._grown[selector]

    def _exists(self, way: frozenset[str]) -> bool:
        return all(name in self._has or self._stored(name) in self._courses for name in way)

    def _stored(self, name: str) -> str:
        """The name under which a metric is stored; of a histogram, that of its count."""
        renamed = self._options.text(name)
        return f"{renamed}_count" if f"{renamed}_count" in self._courses else renamed

    @cached_property
    def _courses(self) -> dict[str, list[float]]:
        """The sums of all that is stored of the server, and of what belongs to none, by name."""
        selectors = (
            'job=~"{job}",instance=~"{instance}"'.format(**self._picked),
            '__name__="ALERTS"',
            '__name__=~"DCGM_.+"',
        )
        return {
            course.labels["__name__"]: course.values
            for selector in selectors
            for course in self._prometheus.over(f"sum by (__name__) ({{{selector}}})", **self._time)
        }


def _selectors(promql: str) -> Iterator[promql_parser.VectorSelector]:
    return (
        node for node in walk(promql_parser.parse(promql)) if isinstance(node, promql_parser.VectorSelector)
    )
