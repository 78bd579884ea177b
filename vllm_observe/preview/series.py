"""What a panel asked for, as named series over the times that are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vllm_observe.preview.board import Panel, Target
from vllm_observe.preview.prometheus import Answer, Prometheus, QueryError
from vllm_observe.preview.span import Span
from vllm_observe.preview.variables import Filling

__all__ = ["Floats", "Found", "Series", "ask"]

Floats = NDArray[np.float64]

_LABEL = re.compile(r"\{\{\s*(.+?)\s*\}\}")


@dataclass(frozen=True)
class Series:
    """One series: its name in the legend, its labels, and its values; NaN where there is none."""

    ref: str
    name: str
    labels: Mapping[str, str]
    times: Floats
    values: Floats

    @property
    def last(self) -> float:
        """The last value that is one; NaN without any."""
        known = self.values[~np.isnan(self.values)]
        return float(known[-1]) if known.size else float("nan")


@dataclass(frozen=True)
class Found:
    """What became of a panel's queries: their series, or why there are none."""

    series: Sequence[Series]
    span: Span
    error: str = ""


def ask(panel: Panel, prometheus: Prometheus, filling: Filling, span: Span, *, pixels: float) -> Found:
    """Ask a panel's queries; a query that Prometheus refuses is told of in its panel.

    Args:
        panel: whose queries.
        prometheus: is asked.
        filling: of variables and macros.
        span: the time that is shown.
        pixels: the panel's width.
    """
    step = span.step(pixels)
    series: list[Series] = []
    try:
        for target in panel.targets:
            series += _asked(target, prometheus, filling, span, step)
    except QueryError as error:
        return Found([], span, str(error))
    return Found([one for one in series if not np.isnan(one.values).all()], span)


def _asked(
    target: Target, prometheus: Prometheus, filling: Filling, span: Span, step: float
) -> Iterator[Series]:
    promql = filling.fill(target.expr, step=step)
    if not promql.strip():
        return
    if target.instant:
        times = np.array([span.end])
        answers = prometheus.instant(promql, at=span.end)
    else:
        # On the grid of the step, as Grafana asks: the same picture however often it is drawn.
        start, end = (edge // step * step for edge in (span.start, span.end))
        times = np.arange(start, end + step / 2, step)
        answers = prometheus.range(promql, start=start, end=end, step=step)
    for answer in answers:
        yield Series(target.ref, _name(target.legend, answer), answer.labels, times, _on(times, answer, step))


def _on(times: Floats, answer: Answer, step: float) -> Floats:
    values = np.full(times.shape, np.nan)
    for at, value in answer.points:
        place = round((at - times[0]) / step)
        if 0 <= place < values.size and np.isfinite(value):
            values[place] = value
    return values


def _name(legend: str, answer: Answer) -> str:
    labels = answer.labels
    if legend and legend != "__auto":
        return _LABEL.sub(lambda found: labels.get(found[1], ""), legend)
    inner = ", ".join(f'{name}="{value}"' for name, value in labels.items() if name != "__name__")
    return labels.get("__name__", "") + (f"{{{inner}}}" if inner else "") or "Value"
