"""A part of a matplotlib figure in pixels from its top left corner, and text that knows its width."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, Rectangle
from matplotlib.textpath import TextToPath

from vllm_observe.preview.looks import EDGE, FAINT, PANEL, TEXT

__all__ = ["DPI", "Canvas", "cut", "text_width"]

DPI = 100
_POINTS = 72 / DPI
_MEASURE = TextToPath()
_ELLIPSIS = "…"
# Axes are drawn at 0, between these and text.
_BEHIND, _SHAPES = -2, -1


@lru_cache(maxsize=8192)
def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how many pixels wide a text is, in letters of so many pixels."""
    font = FontProperties(weight="bold" if bold else "normal", size=size * _POINTS)
    width, _, _ = _MEASURE.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / _POINTS


def cut(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Return as much of a text as has room, with an ellipsis where that is not all."""
    text = " ".join(text.split())
    if text_width(text, size, bold=bold) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(text[:middle].rstrip() + _ELLIPSIS, size, bold=bold) <= width:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + _ELLIPSIS


@dataclass(frozen=True)
class Canvas:
    """A rectangle of a figure, in pixels from the figure's top left corner."""

    figure: Figure
    left: float
    top: float
    width: float
    height: float

    @property
    def _size(self) -> tuple[float, float]:
        across, down = self.figure.get_size_inches()
        return across * DPI, down * DPI

    def _at(self, x: float, y: float) -> tuple[float, float]:
        width, height = self._size
        return (self.left + x) / width, 1 - (self.top + y) / height

    def part(self, x: float, y: float, width: float, height: float) -> Canvas:
        """Return a rectangle within this one."""
        return Canvas(self.figure, self.left + x, self.top + y, max(width, 1.0), max(height, 1.0))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        colour: str = TEXT,
        align: str = "left",
        bold: bool = False,
    ) -> None:
        """Write a line of text whose middle is at a height."""
        across, up = self._at(x, y)
        self.figure.text(
            across,
            up,
            text,
            fontsize=size * _POINTS,
            color=colour,
            ha=align,
            va="center_baseline",
            fontweight="bold" if bold else "normal",
            parse_math=False,
        )

    def say(self, text: str, *, size: float = 14, colour: str = FAINT) -> None:
        """Write a text into the middle, in as many lines as it needs and there is room for."""
        letters = max(8, int(self.width / (size * 0.55)))
        lines = textwrap.wrap(
            text, letters, max_lines=max(1, int(self.height / (size * 1.5))), placeholder="…"
        )
        for number, line in enumerate(lines):
            y = self.height / 2 + (number - (len(lines) - 1) / 2) * size * 1.4
            self.text(self.width / 2, y, line, size=size, colour=colour, align="center")

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Fill a rectangle."""
        across, up = self._at(x, y + height)
        whole_width, whole_height = self._size
        self.figure.add_artist(
            Rectangle(
                (across, up),
                max(width, 0) / whole_width,
                max(height, 0) / whole_height,
                transform=self.figure.transFigure,
                facecolor=colour,
                linewidth=0,
                zorder=_SHAPES,
            )
        )

    def card(self) -> None:
        """Fill it as a panel's background."""
        across, up = self._at(0, self.height)
        width, height = self._size
        self.figure.add_artist(
            FancyBboxPatch(
                (across, up),
                self.width / width,
                self.height / height,
                boxstyle="square,pad=0",
                transform=self.figure.transFigure,
                facecolor=PANEL,
                edgecolor=EDGE,
                linewidth=0.8,
                zorder=_BEHIND,
            )
        )

    def axes(self, *, left: float = 0, top: float = 0, right: float = 0, bottom: float = 0) -> Axes:
        """Return axes that fill it, but for margins in pixels."""
        width, height = self._size
        across, up = self._at(left, self.height - bottom)
        return self.figure.add_axes(
            (
                across,
                up,
                max(self.width - left - right, 1) / width,
                max(self.height - top - bottom, 1) / height,
            )
        )
