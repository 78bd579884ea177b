"""Where panels stand: from left to right in a grid 24 cells wide, and on to the next line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from vllm_observe.dashboards.panels import Panel

__all__ = ["GRID", "Place", "place"]

#: The grid's width in cells.
GRID = 24


class Place(NamedTuple):
    """A panel's place, in cells from the top left corner."""

    x: int
    y: int
    width: int
    height: int


def place(panels: Iterable[Panel], top: int) -> Iterator[tuple[Panel, Place]]:
    """Give each panel its place, in lines that begin at ``top`` and are as high as their highest panel.

    A line that is not full, such as one of which a rendering leaves a panel out, is stretched.
    """
    for line in _lines(panels):
        height = max(panel.height for panel in line)
        taken = sum(panel.width for panel in line)
        before = 0
        for panel in line:
            left, right = (round(edge * GRID / taken) for edge in (before, before + panel.width))
            yield panel, Place(left, top, right - left, panel.height)
            before += panel.width
        top += height


def _lines(panels: Iterable[Panel]) -> Iterator[Sequence[Panel]]:
    line: list[Panel] = []
    for panel in panels:
        if sum(one.width for one in line) + panel.width > GRID:
            yield line
            line = []
        line.append(panel)
    if line:
        yield line
