"""Which state each series was in, over time."""

from __future__ import annotations

import numpy as np

from vllm_observe.preview.board import Field, Panel
from vllm_observe.preview.canvas import DPI, Canvas, cut, text_width
from vllm_observe.preview.kinds.over_time import LABEL, edges, time_scale
from vllm_observe.preview.looks import FAINT, TEXT, reached
from vllm_observe.preview.series import Floats, Found
from vllm_observe.preview.units import formatter

__all__ = ["draw_state_timeline"]

_TIMES, _LEGEND = 18.0, 18.0
_LETTERS = 10.5
_LEAST_ROW = 14.0


def draw_state_timeline(panel: Panel, found: Found, canvas: Canvas) -> None:
    """Draw a state timeline, as many series as there is room for, and the states that occur."""
    room = max(1, int((canvas.height - _TIMES - _LEGEND) / _LEAST_ROW))
    shown = found.series[:room]
    names = min(max(text_width(one.name, _LETTERS) for one in shown), canvas.width * 0.35)
    axes = canvas.axes(left=names + 8, bottom=_TIMES + _LEGEND, right=4, top=2)
    time_scale(axes, found.span, pixels=canvas.width - names)
    axes.grid(visible=False)
    axes.set_ylim(len(shown), 0)
    axes.set_yticks([])
    height = (canvas.height - _TIMES - _LEGEND - 2) / len(shown)
    scale = (canvas.width - names - 12) / max(found.span.end - found.span.start, 1)  # pixels a second
    for place, one in enumerate(shown):
        canvas.text(
            names, 2 + (place + 0.5) * height, cut(one.name, names, _LETTERS), size=_LETTERS, align="right"
        )
        ends = edges(list(one.times))
        for first, last, value in _stretches(one.values):
            text, tone = _state(value, panel.field)
            begin, length = ends[first], ends[last] - ends[first]
            axes.broken_barh([(begin, length)], (place + 0.12, 0.76), color=tone)
            if text_width(text, _LETTERS) + 12 < length * scale and height > _LETTERS * 1.4:
                left = begin + 6 / scale
                axes.text(left, place + 0.5, text, size=_LETTERS * 72 / DPI, color=TEXT, va="center")
    _legend(panel, found, canvas.part(0, canvas.height - _LEGEND, canvas.width, _LEGEND), len(shown))


def _stretches(values: Floats) -> list[tuple[int, int, float]]:
    """Return from where to where a value stays the same; gaps are left out."""
    found: list[tuple[int, int, float]] = []
    for place, value in enumerate(values):
        if np.isnan(value):
            continue
        if found and found[-1][1] == place and found[-1][2] == value:
            found[-1] = (found[-1][0], place + 1, value)
        else:
            found.append((place, place + 1, float(value)))
    return found


def _state(value: float, field: Field) -> tuple[str, str]:
    return field.words.get(f"{value:g}") or (formatter(field.unit)(value, None), reached(value, field.steps))


def _legend(panel: Panel, found: Found, canvas: Canvas, shown: int) -> None:
    values = sorted({float(value) for one in found.series for value in one.values if not np.isnan(value)})
    x = 4.0
    for value in values:
        text, tone = _state(value, panel.field)
        wide = text_width(text, _LETTERS) + 30
        if x + wide > canvas.width:
            break
        canvas.box(x, canvas.height / 2 - 4, 8, 8, tone)
        canvas.text(x + 13, canvas.height / 2, text, size=_LETTERS)
        x += wide
    if shown < len(found.series):
        left_out = f"and {len(found.series) - shown} more series"
        canvas.text(canvas.width - 4, canvas.height / 2, left_out, size=LABEL, colour=FAINT, align="right")
