"""Lines that a container runtime cut into pieces, put together again."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Assembled", "Assembly", "Piece"]


class Piece(NamedTuple):
    """One physical line of a container's log, without what the runtime put around it."""

    stream: str
    final: bool
    text: bytes


class Assembled(NamedTuple):
    """A line of the application, and where its first piece begins; cut where it was over the cap."""

    start: int
    text: bytes
    whole: bool


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
        """Take the piece that begins at ``start``; return the line that it ends, or makes too long.

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
        return _whole(line) if part.final else None

    def give_up(self) -> list[Assembled]:
        """Return the lines whose last pieces will not come, as far as they came, and forget them."""
        lines = [_whole(line) for line in self._open.values() if line.parts]
        self._open.clear()
        return lines

    def move(self) -> None:
        """Continue in another file: the unfinished lines begin before its first byte."""
        for line in self._open.values():
            line.start = 0


class _Open:
    """A line whose last piece has not come yet."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.parts: list[bytes] = []
        self.size = 0
        self.dropped = False


def _whole(line: _Open) -> Assembled:
    r"""Put a line together; ``\r`` at its end goes, as in a file without a wrapper."""
    return Assembled(line.start, b"".join(line.parts).rstrip(b"\r"), whole=True)
