"""The Container Runtime Interface's log format: ``<time> <stdout|stderr> <P|F> <text>``.

containerd and CRI-O cut an application's line into pieces of 8 or 16 KiB; all but the last are
tagged P. The pieces of stdout and stderr interleave.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Assembled", "Assembly", "Piece", "piece"]

_SHAPE = re.compile(
    rb"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::[^ ]*)?(?: (.*))?", re.DOTALL
)


class Piece(NamedTuple):
    """One physical line of a CRI log."""

    stream: str
    final: bool
    text: bytes


class Assembled(NamedTuple):
    """A line of the application, and where its first piece begins; cut where it was over the cap."""

    start: int
    text: bytes
    whole: bool


def piece(line: bytes) -> Piece | None:
    """Read a line of the CRI shape; ``None`` for any other."""
    found = _SHAPE.fullmatch(line) if line[:1].isdigit() else None
    return found and Piece(found[1].decode(), found[2] == b"F", found[3] or b"")


class Assembly:
    """Puts the pieces of each stream together again. Holds at most ``max_bytes`` of a stream.

    A line that grows over it is given once, cut, and the rest of its pieces are dropped.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._open: dict[str, _Open] = {}

    @property
    def pending(self) -> dict[str, int]:
        """Where the unfinished line of each stream begins."""
        return {stream: line.start for stream, line in self._open.items()}

    def add(self, part: Piece, start: int, *, whole: bool = True) -> Assembled | None:
        """Take the piece that begins at ``start``; give the line that it ends, or makes too long.

        A piece that was itself cut (``whole`` false) makes its line too long.
        """
        line = self._open.setdefault(part.stream, _Open(start))
        if part.final:
            del self._open[part.stream]
        if line.dropped:
            return None
        line.parts.append(part.text)
        line.size += len(part.text)
        if line.size > self._max_bytes or not whole:
            cut = b"".join(line.parts)[: self._max_bytes]
            line.parts.clear()
            line.dropped = True
            return Assembled(line.start, cut, whole=False)
        return Assembled(line.start, b"".join(line.parts), whole=True) if part.final else None

    def give_up(self) -> list[Assembled]:
        """Give the lines whose last pieces will not come, as far as they did, and forget them."""
        lines = [
            Assembled(line.start, b"".join(line.parts), whole=True)
            for line in self._open.values()
            if line.parts
        ]
        self._open.clear()
        return lines

    def move(self) -> None:
        """Go on in another file: the unfinished lines begin before its first byte."""
        for line in self._open.values():
            line.start = 0


class _Open:
    """A line whose last piece has not come yet."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.parts: list[bytes] = []
        self.size = 0
        self.dropped = False
