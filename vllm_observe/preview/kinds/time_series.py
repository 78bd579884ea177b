"""Lines, areas and bars over time."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator
from numpy.typing import NDArray

from vllm_observe.preview.board import Panel
from vllm_observe.preview.canvas import Canvas, text_width
from vllm_observe.preview.kinds.legend import ROW, Entry, draw_legend, rows_within
from vllm_observe.preview.kinds.over_time import LABEL, time_scale
from vllm_observe.preview.looks import in_turn
from vllm_observe.preview.series import Floats, Found, Series
from vllm_observe.preview.units import Formatter, formatter

__all__ = ["draw_time_series"]

_MARK_HEIGHT = 34.0  # pixels between two marks of the scale
_TIMES = 18.0  # pixels for the scale of time
_ABOVE_END = 0.3  # of the room above a value, where a soft end of the scale is the highest
_NUMBER = re.compile(r"-?[0-9.]+")


def draw_time_series(panel: Panel, found: Found, canvas: Canvas) -> None:
    """Draw a time-series panel."""
    custom, options = panel.custom, panel.options.get("legend", {})
    form = formatter(panel.field.unit)
    colours = [panel.field_of(one.name).fixed or in_turn(place) for place, one in enumerate(found.series)]
    rows = rows_within(canvas.height, len(found.series)) if options.get("showLegend", True) else 0
    legend_height = (rows + 1) * ROW if rows else 0.0
    plot = canvas.part(0, 0, canvas.width, canvas.height - legend_height - (4 if rows else 0))

    low, high = _limits(panel, found.series)
    marks = [
        mark
        for mark in MaxNLocator(
            max(2, int(plot.height / _MARK_HEIGHT)), steps=[1, 2, 2.5, 5, 10]
        ).tick_values(low, high)
        if low <= mark <= high
    ]
    labels = _labels(marks, form)
    left = max((text_width(label, LABEL) for label in labels), default=10) + 8
    axes = plot.axes(left=left, bottom=_TIMES, right=4, top=4)
    time_scale(axes, found.span, pixels=plot.width - left)
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(FixedLocator(marks))
    axes.set_yticklabels(labels)
    _series(axes, panel, found.series, colours)
    if str(custom.get("thresholdsStyle", {}).get("mode", "off")) != "off":
        for step in panel.field.steps:
            if math.isfinite(step.at):
                axes.axhline(step.at, color=step.colour, linewidth=1.1, linestyle=(0, (5, 3)))
    if rows:
        entries = [Entry(one.name, colours[place], one.values) for place, one in enumerate(found.series)]
        legend = canvas.part(6, canvas.height - legend_height, canvas.width - 10, legend_height)
        draw_legend(legend, entries, options.get("calcs", []), form)


def _labels(marks: Sequence[float], form: Formatter) -> list[str]:
    """Write a scale's marks, all with as many decimals as one of them needs."""

    def numbers(decimals: int) -> list[float]:
        return [float(found[0]) for mark in marks if (found := _NUMBER.search(form(mark, decimals)))]

    exact = numbers(6)
    decimals = next((few for few in range(4) if numbers(few) == exact), None)
    return [form(mark, decimals) for mark in marks]


def _limits(panel: Panel, series: Sequence[Series]) -> tuple[float, float]:
    """Return the ends of the scale: those that the board sets, and as far beyond soft ones as values are."""
    values = np.array([one.values for one in series])
    if panel.custom.get("stacking", {}).get("mode") == "normal":
        values = np.nancumsum(values, axis=0)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    soft_low, soft_high = panel.custom.get("axisSoftMin"), panel.custom.get("axisSoftMax")
    low, high = (
        min(low, low if soft_low is None else soft_low),
        max(high, high if soft_high is None else soft_high),
    )
    low, high = panel.defaults.get("min", low), panel.defaults.get("max", high)
    room = (high - low) * 0.05 or abs(high) * 0.5 or 1.0
    # A line along the upper end would be cut in half by it: there is a little room above that one, too.
    return (low if low == soft_low else low - room), high + (_ABOVE_END if high == soft_high else 1) * room


def _series(axes: Axes, panel: Panel, series: Sequence[Series], colours: Sequence[str]) -> None:
    custom = panel.custom
    fill = float(custom.get("fillOpacity", 0)) / 100
    width = float(custom.get("lineWidth", 1)) * 1.2
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    bars = custom.get("drawStyle") == "bars"
    floor = np.zeros_like(series[0].values)
    if len(series) > 10:  # noqa: PLR2004  # as many areas would be one brown cloud
        fill = fill if stacked else 0
    for one, tone in zip(series, colours, strict=True):
        top = one.values + floor if stacked else one.values
        if bars:
            step = one.times[1] - one.times[0] if one.times.size > 1 else 60.0
            axes.bar(
                one.times,
                np.nan_to_num(one.values),
                bottom=floor if stacked else 0,
                width=step * 0.8,
                color=tone,
            )
        else:
            axes.plot(one.times, top, color=tone, linewidth=width)
            alone = _alone(top)
            axes.plot(one.times[alone], top[alone], color=tone, marker="o", markersize=2.5, linestyle="none")
            if fill:
                axes.fill_between(one.times, floor, top, color=tone, alpha=fill, linewidth=0)
        if stacked:
            floor = floor + np.nan_to_num(one.values)


def _alone(values: Floats) -> NDArray[np.bool_]:
    """Say which values have no neighbour, so that no line shows them."""
    known = ~np.isnan(values)
    beside = np.zeros_like(known)
    beside[1:] |= known[:-1]
    beside[:-1] |= known[1:]
    return known & ~beside
