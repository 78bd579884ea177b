"""What is known of files that are not open."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from vllm_observe.records.files import FileId, FileStat
from vllm_observe.records.position import Position, mark_at
from vllm_observe.records.search import Found

__all__ = ["MOST_KNOWN", "Memory"]

#: Files of each kind that are remembered.
MOST_KNOWN = 4096


class _Parked(NamedTuple):
    position: Position
    seen: FileStat


class Memory:
    """Remembers files that are closed, and of logs when they had last been written to.

    A closed file is *parked* if its name still leads to it: it need not be opened until it changes. It
    is *past* if it is gone, or belongs to an earlier run: it is known by its content alone.
    """

    def __init__(self) -> None:
        self._parked: dict[FileId, _Parked] = {}
        self._pasts: deque[Position] = deque(maxlen=MOST_KNOWN)
        self._written: dict[str, int] = {}

    def restore(self, positions: Iterable[Position]) -> None:
        """Take over what an earlier run read."""
        for position in positions:
            self.remember(position)
            if position.written_ns:
                self.replaced(position.path, position.written_ns)

    @property
    def room(self) -> int:
        """How many more files may be parked."""
        return MOST_KNOWN - len(self._parked)

    def knows(self, file: Found) -> bool | None:
        """Say whether a file is parked and has not changed since; ``None`` where it is not parked."""
        parked = self._parked.get(file.stat.id)
        if parked is None:
            return None
        return (parked.seen.size, parked.seen.modified_ns) == (file.stat.size, file.stat.modified_ns)

    def park(self, file: FileId, position: Position, seen: FileStat) -> None:
        """Remember a file as it is now."""
        self._parked[file] = _Parked(position, seen)

    def unpark(self, file: FileId) -> None:
        """Take a parked file as past: it is open again."""
        if file in self._parked:
            self.remember(self._parked.pop(file).position)

    def keep(self, found: Collection[FileId]) -> None:
        """Take all parked files as past but those that were found."""
        for gone in self._parked.keys() - found:
            position, seen = self._parked[gone]
            self.unpark(gone)
            self.replaced(position.path, seen.modified_ns)

    def remember(self, position: Position) -> None:
        """Remember how far a file was read that is open no longer, or was cut off."""
        if position.end.offset:
            self._pasts.append(position)

    def forget(self, position: Position) -> None:
        """Forget a past that another position goes on after."""
        with contextlib.suppress(ValueError):  # it is parked
            self._pasts.remove(position)

    def known(self) -> Iterator[Position]:
        """Say how far files were read that are not open now."""
        yield from self._pasts
        for parked in self._parked.values():
            yield parked.position

    def positions(self, missing: Collection[Position] = ()) -> list[Position]:
        """Say the same for a later run, which will look for what was written since under the same paths.

        Args:
            missing: those of which no file was found yet, so that there may be more to read.
        """
        past = [
            msgspec.structs.replace(position, written_ns=0, rest=position.rest and position in missing)
            for position in self._pasts
        ]
        parked = [one.position for one in self._parked.values()]
        return [*past, *parked, *(_of_nothing(path, ns) for path, ns in self._written.items())]

    def replaced(self, path: str, written_ns: int) -> None:
        """Note that a path leads elsewhere, and when what was read under it had been written.

        Of several files the earliest counts: the others are known when they are found again.
        """
        self._written[path] = min(written_ns, self._written.get(path, written_ns))
        if len(self._written) > MOST_KNOWN:
            del self._written[next(iter(self._written))]

    def written(self, path: str) -> int | None:
        """Say, once, when what was read under a path had been written, where it leads elsewhere now."""
        return self._written.pop(path, None)


def _of_nothing(path: str, written_ns: int) -> Position:
    """The position in what will be looked for under a path: nobody knows yet what of it was read."""
    return Position(path=path, device=0, inode=0, end=mark_at(0, b""), written_ns=written_ns)
