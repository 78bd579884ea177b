"""A table that fits its terminal: in a narrow one the columns that matter least are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

__all__ = ["Column", "FittingTable"]

#: Columns between two columns of a table.
_GAP = 1


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        header: what stands above it.
        rank: the higher, the sooner it is left out; the one of rank 0 never is.
        least: a longer cell may be cut off to so many columns; ``None``: to its longest word.
        fold: whether a cell that is too long goes on in the next line, instead of being cut off.
    """

    header: str
    rank: int
    least: int | None = None
    fold: bool = False

    def needs(self, cells: Sequence[Text]) -> _Needs:
        """Return the columns of a terminal that it takes, with its cells."""
        texts = [self.header, *(cell.plain for cell in cells)]
        whole = max(map(cell_len, texts))
        longest_word = max((cell_len(word) for text in texts for word in text.split()), default=0)
        return _Needs(min(whole, longest_word if self.least is None else self.least), whole)


class _Needs(NamedTuple):
    least: int
    whole: int


class FittingTable:
    """A table without lines.

    Args:
        columns: its columns, in their order.
        rows: the cells of each row, in the columns' order.
    """

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
        self._columns = columns
        self._rows = rows
        self._needs = [column.needs([row[place] for row in rows]) for place, column in enumerate(columns)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """See rich: draw what fits, and name what does not."""
        shown = self._fitting(options.max_width)
        widths = self._widths(shown, options.max_width)
        table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
        for place in shown:
            column = self._columns[place]
            table.add_column(
                column.header, width=widths[place], overflow="fold" if column.fold else "ellipsis"
            )
        for row in self._rows:
            table.add_row(*(row[place] for place in shown))
        yield table
        if left_out := [column.header for place, column in enumerate(self._columns) if place not in shown]:
            yield Text(f"a wider terminal also shows: {', '.join(left_out)}", style="dim")

    def _fitting(self, width: int) -> list[int]:
        """Return the places of the columns to show, in their order."""
        shown = list(range(len(self._columns)))
        while len(shown) > 1 and sum(self._needs[place].least + _GAP for place in shown) > width:
            shown.remove(max(shown, key=lambda place: self._columns[place].rank))
        return shown

    def _widths(self, shown: Sequence[int], width: int) -> dict[int, int]:
        """Share what is left of the width: first with the columns that lack the least."""
        widths = {place: self._needs[place].least for place in shown}
        spare = width - sum(least + _GAP for least in widths.values())
        for place in sorted(shown, key=lambda place: self._needs[place].whole - widths[place]):
            more = max(0, min(spare, self._needs[place].whole - widths[place]))
            widths[place] += more
            spare -= more
        if len(shown) == 1:
            widths[shown[0]] = min(widths[shown[0]], max(1, width - _GAP))
        return widths
