"""Follow files through everything that happens to logs."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence

from vllm_observe.clock import Clock
from vllm_observe.records.files import Files, OsFiles
from vllm_observe.records.lines import MAX_LINE_BYTES
from vllm_observe.records.position import Positions
from vllm_observe.records.source import Line, Source
from vllm_observe.records.watch import Watch, WatchCounts
from vllm_observe.records.watched import Watched

__all__ = ["FollowCounts", "Follower"]

#: Bytes of a file that are read in one turn, so that a busy one does not hold up the others.
_CHUNK_BYTES = 1 << 18
#: Seconds after which a poll ends even if there is more: decompression is slow.
_POLL_FOR_S = 0.2


@dataclasses.dataclass
class FollowCounts(WatchCounts):
    """What a follower has done since its start."""

    lines: int = 0
    bytes: int = 0


class Follower:
    """Hands out every line of the files that its sources name, once.

    What that means:

    - A file is known by its device and inode while it is open, and else by its content, never by its
      name. Each file is read from its first byte, except those that are there at the very first search
      for a source with ``start: end``.
    - Renamed: it is read to its end under any name or none, and until its writer had time to notice.
      What now has its name is a new file, which is read after it; a line whose pieces are in both is
      put together. Where it was renamed several times since the last look, or while nobody looked,
      what was written in between is read under the names that rotation gives, though no source has them.
      So is all of a log that was made after its source was first searched for; rotations from before stay unread.
    - Truncated: noticed when it is shorter than what was read of it, or when that was written over.
      It begins anew, after what it still holds of the places that are remembered; what was in it and
      not yet read is lost, unless a copy has it.
    - Copied, as ``copytruncate`` does: the copy is not read again. If it holds what was cut off before
      it was read, reading goes on there.
    - Compressed by gzip: it is the same as its text, so that is read on from where the plain file was
      read, once nobody writes to it. A damaged one is read up to the damage, and counted.
    - Deleted and made again, even with the same inode, or a symbolic link that now leads elsewhere: a
      new file.
    - A half line waits for its newline, or its last piece. In a file without a name that does not grow
      any more, and in a compressed one, the last line needs none. A line over the cap comes once, cut;
      the next line is whole.
    - No error of the file system stops the following: what cannot be opened is counted, logged once, and
      retried after longer and longer waits, or as soon as its mode changes.
    - Directories, FIFOs, sockets, devices and what other programs compressed are passed over. If that may
      be the rest of a log, or what was read in part is not found again, that is counted and told once.

    At most ``max_open`` files are open: one that was read to its end is closed in favour of one that
    grows, and opened again when it has changed. Nothing is read twice, and no line is kept.

    One thread polls; ``counts``, ``behind``, ``open_errors``, ``unread`` and ``lag`` may be read from any.
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
        self._watch = Watch(
            sources=sources,
            clock=clock,
            files=files or OsFiles(),
            counts=self.counts,
            max_line=max_line,
            max_open=max_open,
        )
        self._late_since: float | None = None

    def poll(self, max_bytes: int = 1 << 22) -> list[Line]:
        """Hand out the lines that were written since the last poll, the least recently served file first.

        Reads about ``max_bytes`` at most; ``behind`` then says that there is more.
        """
        now = self._clock.monotonic()
        searched = self._watch.look(now)
        lines: list[Line] = []
        until, latest = self.counts.bytes + max_bytes, self._clock.monotonic() + _POLL_FOR_S
        turns = deque(sorted(self._watch.files.values(), key=lambda one: one.served))
        while turns and (room := until - self.counts.bytes) > 0 and self._clock.monotonic() <= latest:
            watched = turns.popleft()
            watched.served = self._watch.looks
            stood_at = watched.tail.offset
            lines += self._read(watched, min(room, _CHUNK_BYTES), now, searched=searched)
            moved = watched.tail.offset > stood_at and watched.behind_since is not None
            if moved and until - self.counts.bytes >= _CHUNK_BYTES:
                turns.append(watched)
        self.counts.lines += len(lines)
        self._take_stock()
        return lines

    def _take_stock(self) -> None:
        left = any(one.served < self._watch.looks for one in self._watch.files.values())
        behind = [one.behind_since for one in self._watch.files.values() if one.behind_since is not None]
        self.behind = left or bool(behind) or self._watch.is_behind
        refused = self._watch.search.refused_since()
        self._late_since = min([*behind, *([] if refused is None else [refused])], default=None)

    def lag(self) -> float:
        """Return for how many seconds, as of the last poll, some file has not been read to its end."""
        late_since = self._late_since
        return 0.0 if late_since is None else self._clock.monotonic() - late_since

    @property
    def unread(self) -> dict[str, int]:
        """How many logs and rotations were given up with what was not read of them, by why."""
        return {"gone": self._watch.missing.gone, "compressed": self._watch.missing.compressed}

    @property
    def open_errors(self) -> int:
        """How often the system refused to list, to look, to open or to read."""
        return self._watch.search.errors

    def search_now(self) -> None:
        """Have the next poll look for files that nobody knows yet, though it is not time to."""
        self._watch.search_now()

    def positions(self) -> Positions:
        """Return how far every file was read: exactly behind the lines that were handed out."""
        return self._watch.positions()

    def restore(self, positions: Positions) -> None:
        """Continue after what an earlier follower read; call it before the first poll."""
        self._watch.restore(positions)

    def close(self) -> None:
        """Close all files; nothing can be read any more."""
        self._watch.close()

    def _read(self, watched: Watched, room: int, now: float, *, searched: bool) -> list[Line]:
        """Return a file's next lines; none where it has not changed, or may still be a copy of another."""
        try:
            if watched.is_over(now):
                return self._let_go(watched)
            waits = self._waits(watched)
            if not waits and watched.fresh and (watched.changed or searched):
                self._watch.settle(watched, now)
            if waits or watched.fresh or watched.is_idle(now):
                return []
            start = watched.tail.offset
            lines = watched.tail.read(room)
            if lines is None:
                self._watch.truncated(watched)
                return self._read(watched, room, now, searched=searched)
            watched.was_read(now)
            self.counts.bytes += watched.tail.offset - start
            if watched.is_archive and watched.tail.at_end:
                lines += watched.tail.finish()
                self._watch.put_away(watched)
        except BlockingIOError:
            watched.is_behind(now)
            return []
        except OSError as error:
            self._watch.lose(watched, error)
            return []
        return lines

    def _waits(self, watched: Watched) -> bool:
        """Return whether its predecessor is still to be read; if not, take over its unfinished lines.

        A compressed predecessor is not waited for, since it may take long.
        """
        before = watched.after
        if before is None:
            return False
        if self._watch.files.get(before.tail.id) is before and not before.is_archive:
            if not before.is_read():
                watched.behind_since = before.behind_since
                return True
            if watched.fresh:
                watched.tail.follow_on(before.tail)
        watched.after = watched.behind_since = None
        return False

    def _let_go(self, watched: Watched) -> list[Line]:
        """Close a file that nobody names and nobody writes to."""
        lines = [] if watched.fresh else watched.tail.finish()
        self._watch.forget(watched)
        return lines
