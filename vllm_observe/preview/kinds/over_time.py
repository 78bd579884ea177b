"""What all graphs over time share: the scale of time, and the lines behind."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from vllm_observe.preview.canvas import DPI
from vllm_observe.preview.looks import EDGE, FAINT, GRID
from vllm_observe.preview.span import Span

__all__ = ["LABEL", "time_scale"]

#: The letters of a scale, in pixels.
LABEL = 10
#: Seconds between two marks.
_MARKS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86_400
_PIXELS_A_MARK = 75


def time_scale(axes: Axes, span: Span, *, pixels: float) -> None:
    """Give axes the time shown as their scale, in this machine's time zone, and remove what is too much."""
    wanted = (span.end - span.start) / max(pixels / _PIXELS_A_MARK, 1)
    every = next((mark for mark in _MARKS if mark >= wanted), _DAY * max(1, round(wanted / _DAY)))
    zone = datetime.fromtimestamp(span.start).astimezone().utcoffset()
    shift = zone.total_seconds() if zone is not None else 0.0
    first = (span.start + shift) // every * every + every - shift
    marks = np.arange(first, span.end, every)
    form = "%m-%d" if every >= _DAY else "%H:%M:%S" if every < 60 else "%H:%M"  # noqa: PLR2004  # a minute
    axes.set_xlim(span.start, max(span.end, span.start + 1))
    axes.set_xticks(marks, [f"{datetime.fromtimestamp(mark).astimezone():{form}}" for mark in marks])
    axes.tick_params(length=0, labelsize=LABEL * 72 / DPI, labelcolor=FAINT, pad=3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(EDGE)
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.patch.set_alpha(0)


def edges(times: list[float]) -> list[float]:
    """Return where each of some times, equally far apart, begins and ends on a scale."""
    step = min((after - before for before, after in pairwise(times)), default=60.0)
    return [*times, times[-1] + step]
