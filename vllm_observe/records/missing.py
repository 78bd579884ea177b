"""Logs that were read in part and are not found again, or only in a form that cannot be read: that is told.

What is not found can be told only once all that a log became was looked for, and looked into.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from vllm_observe.logs import EventLog
from vllm_observe.records.files import FileStat
from vllm_observe.records.position import Position
from vllm_observe.records.rotated import log_of

__all__ = ["Missing"]

#: Seconds from when rotations were looked for to when what is still missing is told. More than it takes until a
#: compressed file is taken as whole.
_TOLD_AFTER_S = 5.0
#: Rotations that are told by their names.
_MOST_TOLD = 5


class Missing:
    """Keeps account of what is not found yet, by the path of the log.

    Attributes:
        gone: logs that were read in part, and of which the file is gone.
        compressed: rotations that may hold what was not read, and cannot be read.
    """

    def __init__(self) -> None:
        self.gone = 0
        self.compressed = 0
        self._log = EventLog("records")
        self._expected: defaultdict[str, list[Position]] = defaultdict(list)
        self._unreadable: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._due: dict[str, float] = {}

    def expect(self, positions: Iterable[Position]) -> None:
        """Expect the files of an earlier run to be found again, of which there may be more to read."""
        wanted = [position for position in positions if position.end.offset and position.rest]
        paths = {position.path for position in wanted}
        for position in wanted:
            folder, name = os.path.split(position.path)
            # A rotation that was read to its end may be deleted: that is what becomes of the last one.
            if position.whole and paths & {os.path.join(folder, log) for log in log_of(name)}:  # noqa: PTH118
                continue
            self._expected[position.path].append(position)

    def found(self, position: Position) -> None:
        """Note that what was read was found again, and is read on."""
        held = self._expected.get(position.path, [])
        held[:] = (one for one in held if one != position)

    def looked_for(self, path: str, now: float) -> None:
        """Note that the rotations of a log were looked for, all of them."""
        self._due.setdefault(path, now + _TOLD_AFTER_S)

    def cannot_read(self, log: str, path: str, seen: FileStat) -> None:
        """Note that a rotation of a log cannot be read."""
        self._unreadable[log][path] = seen.modified_ns

    def expected(self) -> list[Position]:
        """Say what is not found yet, for a later run."""
        return [position for held in self._expected.values() for position in held]

    def due(self, now: float) -> list[str]:
        """Say for which logs it is time to tell what is missing."""
        return [path for path, at in self._due.items() if now >= at]

    def wait(self, path: str, now: float) -> None:
        """Put off what is to be told about a log, since its files are still being looked into."""
        self._due[path] = now + _TOLD_AFTER_S

    def tell(self, path: str, read_ns: Collection[int], *, is_here: Callable[[Position], bool]) -> None:
        """Count and tell what was not found of a log.

        Args:
            path: the log.
            read_ns: the times of its files that were read to their ends. A rotation that has such a time is one
                of them, though it cannot be read any more.
            is_here: says whether what was read stands in another file: a copy was taken for it, or it for a copy.
        """
        del self._due[path]
        unreadable = self._unreadable.pop(path, {})
        unread = [file for file, ns in unreadable.items() if ns not in read_ns]
        known = set(unreadable.values())
        gone = [
            position
            for position in self._expected.pop(path, [])
            if position.written_ns not in known and not is_here(position)
        ]
        self.compressed += len(unread)
        if unread:  # what was read in part is one of them
            self._log.warning(
                "rotations of a request log cannot be read: what was not read before is lost",
                path=path,
                count=len(unread),
                rotations=sorted(unread)[:_MOST_TOLD],
                mend="have them compressed by gzip; unpacked, these are read after a restart if a glob names them",
            )
        elif gone:
            self.gone += len(gone)
            stem, _ = os.path.splitext(path)  # noqa: PTH122
            self._log.warning(
                "a request log that was read in part is gone: what came after that is not read",
                path=path,
                read_bytes=gone[-1].end.offset,
                mend=f"have request_logs name its rotations too, with a glob such as {stem}*",
            )
