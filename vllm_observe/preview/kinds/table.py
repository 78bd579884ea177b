"""Tables of last values: a row for each set of labels, a column for each query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vllm_observe.preview.board import Field, Panel
from vllm_observe.preview.canvas import Canvas, cut, text_width
from vllm_observe.preview.looks import EDGE, FAINT, TEXT, reached
from vllm_observe.preview.series import Found
from vllm_observe.preview.units import formatter

__all__ = ["draw_table"]

_ROW, _LETTERS, _GAP = 22.0, 11.0, 14.0

_Row = dict[str, "str | float"]


def draw_table(panel: Panel, found: Found, canvas: Canvas) -> None:
    """Draw a table panel, as many rows as there is room for."""
    rows = _rows(panel, found)
    shown = {name: title for name, title in _columns(panel, rows).items() if any(name in row for row in rows)}
    rows = _sorted(rows, shown, panel.options.get("sortBy"))
    room = max(1, int(canvas.height / _ROW) - 1)
    seen = rows if len(rows) <= room else rows[: room - 1]
    cells = [[_cell(row.get(name), panel.field_of(title)) for name, title in shown.items()] for row in seen]
    titles = list(shown.values())
    widths = _widths(titles, cells, canvas.width)
    for column, name in enumerate(shown):
        right = any(isinstance(row.get(name), float) for row in rows)
        x, width = sum(widths[:column]), widths[column]
        at, align = (x + width - _GAP / 2, "right") if right else (x + 4, "left")
        for number, (text, tone) in enumerate([(titles[column], FAINT), *(row[column] for row in cells)]):
            fits = cut(text, width - _GAP / 2, _LETTERS)
            canvas.text(at, (number + 0.5) * _ROW, fits, size=_LETTERS, colour=tone, align=align)
    for number in range(len(cells) + 1):
        canvas.box(0, (number + 1) * _ROW - 0.5, canvas.width, 0.7, EDGE)
    if len(seen) < len(rows):
        y = (len(seen) + 1.5) * _ROW
        canvas.text(4, y, f"and {len(rows) - len(seen)} more", size=_LETTERS, colour=FAINT)


def _rows(panel: Panel, found: Found) -> list[_Row]:
    """Merge what the queries gave: one row for each set of labels."""
    several = len(panel.targets) > 1
    merged: dict[tuple[tuple[str, str], ...], _Row] = {}
    for one in found.series:
        key = tuple(sorted(one.labels.items()))
        row = merged.setdefault(key, dict(one.labels))
        row[f"Value #{one.ref}" if several else "Value"] = one.last
    return list(merged.values())


def _columns(panel: Panel, rows: Sequence[_Row]) -> Mapping[str, str]:
    """Return the columns' titles by what they show, in their order."""
    told = panel.transformations
    names: list[str] = list(dict.fromkeys(name for row in rows for name in row))
    include = told.get("filterFieldsByName", {}).get("include", {}).get("names")
    if isinstance(include, list):
        names = [name for name in include if isinstance(name, str)]
    organised = told.get("organize", {})
    excluded, places = organised.get("excludeByName", {}), organised.get("indexByName", {})
    names = [name for name in names if not excluded.get(name)]
    names.sort(key=lambda name: places.get(name, len(places)))
    return {name: organised.get("renameByName", {}).get(name, name) for name in names}


def _sorted(rows: list[_Row], columns: Mapping[str, str], order: Any) -> list[_Row]:
    wanted = order[0] if isinstance(order, list) and order else {}
    name = next((name for name, title in columns.items() if title == wanted.get("displayName")), None)
    if name is None:
        return rows

    def key(row: _Row) -> tuple[float, str]:
        value = row.get(name, "")
        return (-np.inf, value) if isinstance(value, str) else (value, "")

    return sorted(rows, key=key, reverse=bool(wanted.get("desc")))


def _cell(value: str | float | None, field: Field) -> tuple[str, str]:
    if value is None:
        return "", TEXT
    if isinstance(value, str):
        return value, TEXT
    words = field.words.get(f"{value:g}")
    if words:
        return words
    tone = reached(value, field.steps) if field.coloured else TEXT
    return formatter(field.unit)(value, None), tone


def _widths(titles: Sequence[str], cells: Sequence[Sequence[tuple[str, str]]], width: float) -> list[float]:
    """Share the width out: to each column what it needs, and what is left or lacks in proportion."""
    needed = [
        max(text_width(text, _LETTERS) for text in (title, *(row[place][0] for row in cells))) + _GAP
        for place, title in enumerate(titles)
    ]
    return [width * one / sum(needed) for one in needed]
