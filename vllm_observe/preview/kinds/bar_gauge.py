"""Last values as bars, for comparing many."""

from __future__ import annotations

import numpy as np

from vllm_observe.preview.board import Panel
from vllm_observe.preview.canvas import Canvas, cut, text_width
from vllm_observe.preview.looks import FAINT, GRID, reached
from vllm_observe.preview.series import Found
from vllm_observe.preview.units import formatter

__all__ = ["draw_bar_gauge"]

_LETTERS = 11.0
_ROW_MIN, _ROW_MAX = 18.0, 40.0


def draw_bar_gauge(panel: Panel, found: Found, canvas: Canvas) -> None:
    """Draw a bar-gauge panel, as many bars as there is room for."""
    room = int(canvas.height / _ROW_MIN)
    shown = found.series if len(found.series) <= room else found.series[: max(room - 1, 1)]
    row = min(_ROW_MAX, canvas.height / max(len(shown) + (len(shown) < len(found.series)), 1))
    form = formatter(panel.field.unit)
    texts = [form(one.last, None) for one in shown]
    names = min(max(text_width(one.name, _LETTERS) for one in shown), canvas.width * 0.45) + 8
    values = max(text_width(text, _LETTERS) for text in texts) + 10
    low = float(panel.defaults.get("min", min(0.0, *(one.last for one in shown), 0.0)))
    high = float(panel.defaults.get("max", np.nanmax([one.last for one in found.series])))
    length = canvas.width - names - values
    for number, (one, text) in enumerate(zip(shown, texts, strict=True)):
        y = (number + 0.5) * row
        tone = panel.field_of(one.name).fixed or reached(one.last, panel.field.steps)
        share = (one.last - low) / (high - low) if high > low else 0.0
        canvas.text(0, y, cut(one.name, names - 8, _LETTERS), size=_LETTERS)
        canvas.box(names, y - row * 0.35, length, row * 0.7, GRID)
        canvas.box(names, y - row * 0.35, length * min(max(share, 0.0), 1.0), row * 0.7, tone)
        canvas.text(canvas.width, y, text, size=_LETTERS, colour=tone, align="right")
    if len(shown) < len(found.series):
        left_out = f"and {len(found.series) - len(shown)} more"
        canvas.text(0, (len(shown) + 0.5) * row, left_out, size=_LETTERS, colour=FAINT)
