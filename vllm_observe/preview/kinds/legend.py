"""A graph's legend: a short table of its series, those with the largest last value first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from vllm_observe.preview.canvas import Canvas, cut, text_width
from vllm_observe.preview.looks import FAINT
from vllm_observe.preview.series import Floats
from vllm_observe.preview.units import Formatter

__all__ = ["ROW", "Entry", "draw_legend", "rows_within"]

#: A row's height, and its letters', in pixels.
ROW, _LETTERS = 15.0, 10.5
_COLUMN_GAP = 10.0
_MARK = 12.0
_CALCULATIONS: Mapping[str, tuple[str, str]] = {
    "lastNotNull": ("Last", "last"),
    "last": ("Last", "last"),
    "mean": ("Mean", "mean"),
    "max": ("Max", "max"),
    "min": ("Min", "min"),
}


class Entry(NamedTuple):
    """A series in the legend."""

    name: str
    colour: str
    values: Floats

    def told(self, calculation: str) -> float:
        """Return its last value, its mean, its maximum or its minimum."""
        known = self.values[~np.isnan(self.values)]
        if not known.size:
            return float("nan")
        return float(
            {"last": known[-1], "mean": known.mean(), "max": known.max(), "min": known.min()}[calculation]
        )


def rows_within(height: float, series: int) -> int:
    """Return how many rows a legend takes of a panel so high: a third of it at most, its head included."""
    return min(series, max(1, int(height * 0.36 / ROW) - 1))


def draw_legend(
    canvas: Canvas, entries: Sequence[Entry], calculations: Sequence[str], form: Formatter
) -> None:
    """Draw as many entries as there is room for, and say how many are left out."""
    columns = [_CALCULATIONS[name] for name in calculations if name in _CALCULATIONS]
    ordered = sorted(entries, key=lambda entry: -np.nan_to_num(entry.told("last"), nan=-np.inf))
    rows = max(1, int(canvas.height / ROW) - bool(columns))
    shown = ordered if len(ordered) <= rows else ordered[: rows - 1] if rows > 1 else ordered[:1]
    cells = [[form(entry.told(told), None) for _, told in columns] for entry in shown]
    widths = [
        max(text_width(text, _LETTERS) for text in (title, *(row[place] for row in cells))) + _COLUMN_GAP
        for place, (title, _) in enumerate(columns)
    ]
    while widths and sum(widths) > canvas.width * 0.6:
        widths.pop()  # a narrow panel's names matter more than its maxima
    ends = [canvas.width - sum(widths[place + 1 :]) for place in range(len(widths))]
    names = canvas.width - sum(widths) - _MARK - 4
    if columns:
        for (title, _), end in zip(columns, ends, strict=False):
            canvas.text(end, ROW / 2, title, size=_LETTERS, colour=FAINT, align="right")
    for number, (entry, row) in enumerate(zip(shown, cells, strict=True)):
        y = (number + bool(columns) + 0.5) * ROW
        canvas.box(0, y - 1.5, 8, 3, entry.colour)
        canvas.text(_MARK, y, cut(entry.name, names, _LETTERS), size=_LETTERS)
        for text, end in zip(row, ends, strict=False):
            canvas.text(end, y, text, size=_LETTERS, align="right")
    if len(shown) < len(ordered):
        y = (len(shown) + bool(columns) + 0.5) * ROW
        if y < canvas.height:
            canvas.text(_MARK, y, f"and {len(ordered) - len(shown)} more", size=_LETTERS, colour=FAINT)
