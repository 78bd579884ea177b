"""Last values, large, each with its course behind it."""

from __future__ import annotations

import math

import numpy as np

from vllm_observe.preview.board import Panel
from vllm_observe.preview.canvas import Canvas, cut, text_width
from vllm_observe.preview.looks import FAINT, reached
from vllm_observe.preview.series import Found, Series
from vllm_observe.preview.units import formatter

__all__ = ["draw_stat"]

_NAME = 11.0
_LARGEST, _SMALLEST = 40.0, 10.0
_LEAST_WIDTH, _LEAST_HEIGHT = 90.0, 40.0


def draw_stat(panel: Panel, found: Found, canvas: Canvas) -> None:
    """Draw a stat panel: its series side by side, or one above the other where it is narrow."""
    count = len(found.series)
    across = min(count, max(1, int(canvas.width / _LEAST_WIDTH)))
    down = min(math.ceil(count / across), max(1, int(canvas.height / _LEAST_HEIGHT)))
    room = across * down
    named = count > 1 or panel.options.get("textMode") == "value_and_name"
    width, height = canvas.width / across, canvas.height / down
    for place, one in enumerate(found.series if count <= room else found.series[: room - 1]):
        x, y = place % across * width, place // across * height
        _value(panel, one, canvas.part(x, y, width, height), named=named)
    if count > room:
        canvas.part(canvas.width - width, canvas.height - height, width, height).say(
            f"and {count - room + 1} more"
        )


def _value(panel: Panel, one: Series, canvas: Canvas, *, named: bool) -> None:
    field = panel.field_of(one.name)
    words = field.words.get(f"{one.last:g}")
    text = words[0] if words else formatter(field.unit)(one.last, None)
    tone = field.fixed or (words[1] if words else reached(one.last, field.steps))
    head = _NAME * 1.6 if named else 0.0
    size = min(_LARGEST, (canvas.height - head) * 0.5)
    size *= min(1.0, (canvas.width - 12) / text_width(text, size, bold=True))
    if panel.options.get("graphMode", "none") == "area" and one.values.size > 1:
        _course(one, canvas.part(0, canvas.height * 0.6, canvas.width, canvas.height * 0.4), tone)
    if named:
        name = cut(one.name, canvas.width - 8, _NAME)
        canvas.text(canvas.width / 2, head / 2 + 2, name, size=_NAME, colour=FAINT, align="center")
    middle = head + (canvas.height - head) * 0.42
    canvas.text(
        canvas.width / 2, middle, text, size=max(size, _SMALLEST), colour=tone, align="center", bold=True
    )


def _course(one: Series, canvas: Canvas, tone: str) -> None:
    axes = canvas.axes()
    axes.set_axis_off()
    axes.set_xlim(one.times[0], one.times[-1])
    low, high = min(0.0, float(np.nanmin(one.values))), float(np.nanmax(one.values))
    axes.set_ylim(low, high * 1.1 if high > low else low + 1)
    axes.fill_between(one.times, low, one.values, color=tone, alpha=0.15, linewidth=0)
    axes.plot(one.times, one.values, color=tone, linewidth=0.8, alpha=0.5)
