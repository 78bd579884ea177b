"""Follow files through everything that happens to logs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.records.files import FileId, Files, FileStat, OsFiles
from vllm_observe.records.lines import MAX_LINE_BYTES
from vllm_observe.records.position import Position, Positions
from vllm_observe.records.recognise import Origin, recognise
from vllm_observe.records.search import Found, Search
from vllm_observe.records.source import Line, Source, Start
from vllm_observe.records.watched import Watched

__all__ = ["FollowCounts", "Follower"]

#: Bytes of a file that are read in one turn, so that a busy one does not hold up the others.
_CHUNK_BYTES = 1 << 18
#: Seconds between two searches for files that nobody knows yet. One that takes long is made more
#: seldom, so that searching takes a hundredth of a core at most.
_SEARCH_EVERY_S, _SEARCH_PAUSE = 1.0, 100.0
#: Files that are known without being open: read to their end, gone, or from an earlier run.
_MOST_KNOWN = 4096


@dataclasses.dataclass
class FollowCounts:
    """What a follower has done since it began; only ``waiting`` is a state."""

    lines: int = 0
    bytes: int = 0
    rotations: int = 0
    truncations: int = 0
    waiting: int = 0  # files that are not open because too many others are


class _Parked(NamedTuple):
    """A file that need not be open until it changes: read to its end, a copy, or compressed."""

    position: Position
    seen: FileStat


class Follower:
    """Hands out every line of the files that its sources name, once.

    What that means:

    - A file is known by its device and inode while it is open, and else by its content, never by its
      name. Each file is read from its first byte, except those that are there at the very first search
      for a source with ``start: end``.
    - Renamed: it is read to its end under any name or none, and until its writer had time to notice.
      What now has its name is a new file, which is read after it; a line whose pieces are in both is
      put together.
    - Truncated: noticed when it is shorter than what was read of it, or when that was written over.
      It begins anew, after what it still holds of its first lines and of the last that were read; what
      was in it and not yet read is lost, unless a copy has it.
    - Copied, as ``copytruncate`` does: the copy is not read again. If it holds what was cut off before
      it was read, reading goes on there.
    - Deleted and made again, even with the same inode, or a symbolic link that now leads elsewhere: a
      new file.
    - A half line waits for its newline, or its last piece. In a file without a name that does not grow
      any more, the last line needs none. A line over the cap comes once, cut; the next line is whole.
    - Nothing that a file system says ends the following: what cannot be opened is counted, told once,
      and tried again with longer waits, or as soon as its mode changes.
    - Directories, FIFOs, sockets, devices and compressed files are passed over.

    Open files are at most ``max_open``; one that was read to its end is closed for one that grows, and
    opened again when it has changed. Nothing is read twice and nothing is kept of what was handed out.

    One thread polls; ``counts``, ``behind``, ``open_errors`` and ``lag`` may be read from any.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        clock: Clock,
        files: Files | None = None,
        max_line: int = MAX_LINE_BYTES,
        max_open: int = 256,
    ) -> None:
        self.counts = FollowCounts()
        self.behind = False
        self._clock = clock
        self._search = Search(sources=sources, files=files or OsFiles(), clock=clock, max_line=max_line)
        self._max_open = max_open
        self._watched: dict[FileId, Watched] = {}
        self._parked: dict[FileId, _Parked] = {}
        self._pasts: deque[Position] = deque(maxlen=_MOST_KNOWN)
        self._sources = frozenset(source.path for source in sources)
        self._searched: frozenset[str] = frozenset()  # the sources whose files were looked for, ever
        self._next_search = clock.monotonic()
        self._polls = 0
        self._late_since: float | None = None

    # --- What its owner asks ---------------------------------------------------------------------

    def poll(self, max_bytes: int = 1 << 22) -> list[Line]:
        """Hand out the lines that were written since the last poll, at first the oldest file's.

        Reads about ``max_bytes`` at most; ``behind`` then says that there is more.
        """
        now = self._clock.monotonic()
        successors = [
            file for one in list(self._watched.values()) if (file := self._look(one, now)) is not None
        ]
        searched = now >= self._next_search
        if searched:
            self._find(now)
        else:
            self._open(successors, now)
        self._polls += 1
        lines: list[Line] = []
        until = self.counts.bytes + max_bytes
        turns = deque(sorted(self._watched.values(), key=lambda one: one.served))
        while turns and (room := until - self.counts.bytes) > 0:
            watched = turns.popleft()
            watched.served = self._polls
            stood_at = watched.tail.offset
            lines += self._read(watched, min(room, _CHUNK_BYTES), now, searched=searched)
            moved = watched.tail.offset > stood_at and watched.behind_since is not None
            if moved and until - self.counts.bytes >= _CHUNK_BYTES:
                turns.append(watched)
        self.counts.lines += len(lines)
        self._take_stock()
        return lines

    def _take_stock(self) -> None:
        left = any(one.served < self._polls for one in self._watched.values())
        behind = [one.behind_since for one in self._watched.values() if one.behind_since is not None]
        self.behind = left or bool(behind)
        refused = self._search.refused_since()
        self._late_since = min([*behind, *([] if refused is None else [refused])], default=None)

    def lag(self) -> float:
        """Say for how many seconds, as of the last poll, some file has not been read to its end."""
        late_since = self._late_since
        return 0.0 if late_since is None else self._clock.monotonic() - late_since

    @property
    def open_errors(self) -> int:
        """How often the system refused to list, to look, to open or to read."""
        return self._search.errors

    def search_now(self) -> None:
        """Have the next poll look for files that nobody knows yet, though it is not time to."""
        self._next_search = self._clock.monotonic()

    def positions(self) -> Positions:
        """Say how far every file was read: all lines that were handed out, and no other."""
        files = [*self._closed(), *(one.tail.position() for one in self._watched.values())]
        return Positions(
            sources=tuple(sorted(self._sources & self._searched)),
            files=tuple(position for position in files if position.end.offset),
        )

    def restore(self, positions: Positions) -> None:
        """Go on after what an earlier follower read; to be called before the first poll."""
        self._pasts.extend(positions.files)
        self._searched = frozenset(positions.sources)

    def close(self) -> None:
        """Close all files; nothing can be read any more."""
        for watched in list(self._watched.values()):
            self._drop(watched)

    # --- Which files there are -------------------------------------------------------------------

    def _look(self, watched: Watched, now: float) -> Found | None:
        """Look at a file by its name; where that leads to a file that nobody knows, give that one."""
        successor = None
        try:
            stat = None
            if watched.named:
                file = self._search.look(watched.tail.path, watched.tail.source)
                if file is not None and file.stat.id == watched.tail.id:
                    stat = file.stat
                elif file is not None:
                    watched.named = False
                    successor = None if self._knows(file) else file
            if stat is None:
                watched.has_no_name(now)
                stat = watched.tail.file.stat()
            watched.saw(stat, now)
        except OSError as error:
            self._lose(watched, error)
        if successor is not None:
            self.counts.rotations += 1
        return successor

    def _find(self, now: float) -> None:
        """Search for files, and open those that nobody knows."""
        found = self._search.find()
        for watched in self._watched.values():
            file = found.get(watched.tail.id)
            if file is not None and watched.gone_since is not None:
                watched.is_named(file.path)
        for gone in self._parked.keys() - found.keys():
            self._unpark(gone)
        self._open([file for file in found.values() if not self._knows(file)], now)
        self._searched = self._sources
        took = self._clock.monotonic() - now
        self._next_search = now + max(_SEARCH_EVERY_S, _SEARCH_PAUSE * took)

    def _knows(self, file: Found) -> bool:
        parked = self._parked.get(file.stat.id)
        if parked is not None:
            return (parked.seen.size, parked.seen.modified_ns) == (file.stat.size, file.stat.modified_ns)
        return file.stat.id in self._watched

    def _open(self, files: list[Found], now: float) -> None:
        """Open files, the newest if it cannot be all; the oldest of these is then read first."""
        files.sort(key=lambda file: file.stat.modified_ns)
        room = self._make_room(len(files), now)
        self.counts.waiting = max(0, len(files) - room)
        for file in files[self.counts.waiting :]:
            tail = self._search.open(file)
            if tail is None:
                continue
            if tail.id in self._watched:
                tail.file.close()
                continue
            before = (one for one in reversed(self._watched.values()) if one.opened_as == file.path)
            watched = Watched(
                tail, file.stat, now, opened_as=file.path, after=next(before, None), served=self._polls
            )
            self._watched[tail.id] = watched
            self._unpark(tail.id)
            if file.source.start is Start.END and file.source.path not in self._searched:
                self._skip_to_end(watched)

    def _make_room(self, wanted: int, now: float) -> int:
        """Close idle files, the longest unchanged first; say how many may be opened."""
        room = self._max_open - len(self._watched)
        idle = sorted(
            (one for one in self._watched.values() if one.is_idle(now)), key=lambda one: one.changed_at
        )
        may_park = _MOST_KNOWN - len(self._parked)
        for watched in idle[: max(0, min(wanted - room, may_park))]:
            self._park(watched)
            room += 1
        return max(0, room)

    def _park(self, watched: Watched) -> None:
        self._parked[watched.tail.id] = _Parked(watched.tail.position(), watched.stat)
        self._drop(watched)

    def _unpark(self, file: FileId) -> None:
        if file in self._parked:
            self._remember(self._parked.pop(file).position)

    def _remember(self, position: Position) -> None:
        if position.end.offset:
            self._pasts.append(position)

    def _closed(self) -> list[Position]:
        """Say how far files were read that are not open now."""
        return [*self._pasts, *(parked.position for parked in self._parked.values())]

    # --- What is in them -------------------------------------------------------------------------

    def _read(self, watched: Watched, room: int, now: float, *, searched: bool) -> list[Line]:
        """Give the next lines of a file; none where there is no need to look, or nothing is sure yet."""
        try:
            if watched.is_over(now):
                return self._let_go(watched)
            if self._waits(watched, now):
                return []
            if watched.fresh and (watched.changed or searched):
                self._settle(watched)
            if watched.fresh or watched.is_idle(now):
                return []
            start = watched.tail.offset
            lines = watched.tail.read(room)
            if lines is None:
                self._truncated(watched)
                return self._read(watched, room, now, searched=searched)
        except OSError as error:
            self._lose(watched, error)
            return []
        watched.was_read(now)
        self.counts.bytes += watched.tail.offset - start
        return lines

    def _waits(self, watched: Watched, now: float) -> bool:
        """Say whether the file before it is still to be read; if not, it gets that one's unfinished lines."""
        before = watched.after
        if before is None:
            return False
        if self._watched.get(before.tail.id) is before:
            if not before.is_read():
                watched.behind_since = now if watched.behind_since is None else watched.behind_since
                return True
            if watched.fresh:
                watched.tail.follow_on(before.tail)
        watched.after = watched.behind_since = None
        return False

    def _truncated(self, watched: Watched) -> None:
        self.counts.truncations += 1
        self._remember(watched.tail.position())
        watched.begins_anew(watched.tail.file.stat())

    def _settle(self, watched: Watched) -> None:
        """Find out whether what is in a file is new, as far as that can be known by now."""
        watched.changed = False
        if watched.stat.size == 0:
            return
        others = [one.tail for one in self._watched.values()]
        # Where it went on in another way, it is no copy of what it was itself.
        former = watched.tail.former if watched.tail.differs() else None
        pasts = [past for past in self._closed() if former is None or past != former]
        origin, position = recognise(watched.tail.file, watched.stat.size, others, pasts)
        if origin is Origin.NEW:
            watched.tail.go_on()
        if position is not None:
            watched.tail.resume(position)
            self._pasts = deque((past for past in self._pasts if past is not position), _MOST_KNOWN)
        if origin is Origin.COMPRESSED:
            self._search.pass_over(watched.tail.path)
            self._park(watched)
        elif origin is not Origin.COPY:
            watched.fresh = False

    def _skip_to_end(self, watched: Watched) -> None:
        """Take a file up at its end, unless it is known by another source or from an earlier run."""
        tail, size = watched.tail, watched.stat.size
        try:
            if size and recognise(tail.file, size, (), self._closed()).origin is Origin.NEW:
                tail.skip_to_end()
                watched.fresh = False
        except OSError as error:
            self._lose(watched, error)

    def _let_go(self, watched: Watched) -> list[Line]:
        """Close a file that nobody names and nobody writes to."""
        lines = [] if watched.fresh else watched.tail.finish()
        self._forget(watched)
        return lines

    def _lose(self, watched: Watched, error: OSError) -> None:
        """Give up a file that the system will not read; it is found again, and then goes on."""
        self._search.refuse(watched.tail.path, watched.stat.changed_ns, error)
        self._forget(watched)

    def _forget(self, watched: Watched) -> None:
        self._remember(watched.tail.position())
        self._drop(watched)

    def _drop(self, watched: Watched) -> None:
        del self._watched[watched.tail.id]
        watched.after = None  # or one that waits for it would keep all that were before
        with contextlib.suppress(OSError):  # it is gone from us either way
            watched.tail.file.close()
