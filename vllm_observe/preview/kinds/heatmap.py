"""How many observations fell into each bucket, over time."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import PowerNorm

from vllm_observe.preview.board import Panel
from vllm_observe.preview.canvas import Canvas, text_width
from vllm_observe.preview.kinds.over_time import LABEL, edges, time_scale
from vllm_observe.preview.series import Found, Series
from vllm_observe.preview.units import formatter

__all__ = ["draw_heatmap"]

_TIMES = 18.0
_MARK_HEIGHT = 16.0


def draw_heatmap(panel: Panel, found: Found, canvas: Canvas) -> None:
    """Draw a heatmap of a histogram's cumulative buckets, each bucket as high as the next."""
    bounds = sorted(
        (_bound(one), place) for place, one in enumerate(found.series) if not np.isnan(_bound(one))
    )
    if not bounds:
        canvas.say("No buckets: its series have no label le")
        return
    up_to = np.nan_to_num(np.array([found.series[place].values for _, place in bounds]))
    within = np.maximum(np.diff(up_to, axis=0, prepend=0.0), 0.0)
    form = formatter(str(panel.options.get("yAxis", {}).get("unit", "")))
    labels = ["+Inf" if np.isinf(bound) else form(bound, None) for bound, _ in bounds]
    left = max(text_width(label, LABEL) for label in labels) + 8
    axes = canvas.axes(left=left, bottom=_TIMES, right=4, top=4)
    time_scale(axes, found.span, pixels=canvas.width - left)
    axes.grid(visible=False)
    times = edges(list(found.series[0].times))
    nothing = float(panel.options.get("filterValues", {}).get("le", 0.0))  # what counts as an empty cell
    exponent = float(panel.options.get("color", {}).get("exponent", 0.5))
    axes.pcolormesh(
        times,
        np.arange(len(bounds) + 1),
        np.ma.masked_less_equal(within, nothing),  # what is empty stays white
        cmap="Oranges",
        norm=PowerNorm(exponent, vmin=0, vmax=float(within.max()) or 1.0),
        rasterized=True,
    )
    every = int(np.ceil(len(bounds) / max(1.0, (canvas.height - _TIMES) / _MARK_HEIGHT)))
    marks = np.arange(0, len(bounds), every)
    axes.set_yticks(marks + 1, [labels[mark] for mark in marks])
    axes.set_ylim(0, len(bounds))


def _bound(one: Series) -> float:
    try:
        return float(one.labels.get("le", "nan"))
    except ValueError:
        return float("nan")
