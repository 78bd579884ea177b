"""Which files there are, and which of them are open."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.records.files import FileId, Files
from vllm_observe.records.gunzip import Gunzipped, text_of
from vllm_observe.records.memory import Memory
from vllm_observe.records.missing import Missing
from vllm_observe.records.position import HEAD_BYTES, Likeness, Position, Positions
from vllm_observe.records.recognise import Origin, recognise
from vllm_observe.records.search import Found, Search
from vllm_observe.records.source import Source, Start
from vllm_observe.records.watched import Watched

__all__ = ["Watch", "WatchCounts"]

#: Seconds between two searches for new files. Slow searches are made less often, so that searching takes
#: a hundredth of a core at most.
_SEARCH_EVERY_S, _SEARCH_PAUSE = 1.0, 100.0


@dataclasses.dataclass
class WatchCounts:
    """What has happened to the files: counts, except for ``waiting``, which is a current number."""

    rotations: int = 0
    truncations: int = 0
    waiting: int = 0  # files that are not open because too many others are


class Watch:
    """Finds the files that sources name, and what became of them; opens and closes them.

    Attributes:
        files: those that are open, in the order in which they were found.
        counts: what has happened to them.
        looks: how often they were looked at.
        search: where they are found, which counts what the system refuses.
        missing: what is not found, which counts what of it is given up.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        clock: Clock,
        files: Files,
        counts: WatchCounts,
        max_line: int,
        max_open: int,
    ) -> None:
        self.files: dict[FileId, Watched] = {}
        self.counts = counts
        self.looks = 0
        self.search = Search(sources=sources, files=files, clock=clock, max_line=max_line)
        self._clock = clock
        self._max_open = max_open
        self._files = files
        self._memory = Memory()
        self.missing = Missing()
        self._cut: list[Found] = []  # logs that were truncated, until their copies are looked for
        self._again: list[Found] = []  # logs of which a file could not be opened, until the next search
        self._sources = frozenset(source.path for source in sources)
        self._searched: dict[str, int] = {}  # the sources whose files were looked for, and since when
        self._next_search = clock.monotonic()

    def look(self, now: float) -> bool:
        """Look at all files, and search for others if it is time to; say whether it was."""
        successors = [file for one in list(self.files.values()) if (file := self._look(one, now)) is not None]
        searched = now >= self._next_search
        if searched:
            self._find(now)
        else:
            self._open(successors, now)
        self._tell_missing(now)
        self.looks += 1
        return searched

    @property
    def is_behind(self) -> bool:
        """Whether the next look will open files that are known to be there."""
        return bool(self._cut)

    def search_now(self) -> None:
        """Have the next poll look for files that nobody knows yet, though it is not time to."""
        self._next_search = self._clock.monotonic()

    def positions(self) -> Positions:
        """Say how far every file was read: all lines that were handed out, and no other."""
        past = self._memory.positions(self.missing.expected())
        files = [*past, *(one.position() for one in self.files.values())]
        searched = {path: ns for path, ns in self._searched.items() if path in self._sources}
        return Positions(
            sources=tuple(sorted(searched)),
            files=tuple(position for position in files if position.end.offset or position.written_ns),
            since=searched,
        )

    def restore(self, positions: Positions) -> None:
        """Go on after what an earlier follower read; to be called before the first poll."""
        self._memory.restore(positions.files)
        self.missing.expect(positions.files)
        since = self._files.now_ns()  # where an older version kept none
        self._searched = {path: positions.since.get(path, since) for path in positions.sources}

    def close(self) -> None:
        """Close all files; nothing can be read any more."""
        for watched in list(self.files.values()):
            self._drop(watched)

    # --- Which files there are -------------------------------------------------------------------

    def _look(self, watched: Watched, now: float) -> Found | None:
        """Look at a file by its name; return the file that the name leads to now, where that is a new one."""
        successor = None
        try:
            stat = None
            if watched.named:
                file = self.search.look(watched.tail.path, watched.tail.source)
                if file is not None and file.stat.id == watched.tail.id:
                    stat = file.stat
                else:
                    self._memory.replaced(watched.tail.path, watched.written_ns)
                    watched.named = file is None
                    successor = None if file is None or self._knows(file) else file
            if stat is None:
                watched.has_no_name(now)
                stat = watched.tail.file.stat()
            size = watched.stat.size
            if watched.saw(stat, now) and watched.is_archive:
                self._begin_anew(watched)
            elif stat.size < size and watched.tail.offset == 0:  # else what was read is compared
                self.truncated(watched)
            elif size == 0 < stat.size:  # it may have been filled and emptied in between
                self._look_beside(watched)
        except OSError as error:
            self.lose(watched, error)
        if successor is not None:
            self.counts.rotations += 1
        return successor

    def _find(self, now: float) -> None:
        """Search for files, and open those that nobody knows."""
        began_ns = self._files.now_ns()
        found = self.search.find()
        for watched in self.files.values():
            file = found.get(watched.tail.id)
            if file is not None and watched.gone_since is not None:
                watched.is_named(file.path)
        self._memory.keep(found.keys())
        self._cut += self._again
        self._again = []
        self.counts.waiting = self._open([file for file in found.values() if not self._knows(file)], now)
        self._searched = dict.fromkeys(self._sources, began_ns) | self._searched
        took = self._clock.monotonic() - now
        self._next_search = now + max(_SEARCH_EVERY_S, _SEARCH_PAUSE * took)

    def _knows(self, file: Found) -> bool:
        parked = self._memory.knows(file)
        return file.stat.id in self.files if parked is None else parked

    def _rotations(self, files: list[Found], now: float) -> list[Found]:
        """Look for what the logs became that lay under these files' paths before, were they seen or not."""
        if not files:  # as in nearly every look
            return []
        seen = {one.opened_as for one in self.files.values()} | {one.path for one in self._memory.known()}
        logs = []
        for file in {file.path: file for file in files}.values():
            since = self._memory.written(file.path)
            if since is None and file.path not in seen:
                since = self._searched.get(file.source.path)
            if since is not None:
                logs.append((file, since))
                self.missing.looked_for(file.path, now)
        return [file for file in self.search.rotations(logs) if not self._knows(file)]

    def _open(self, files: list[Found], now: float) -> int:
        """Open files, and what was under their names before; the newest ones if not all can be open.

        Those are then read from the oldest on. Returns how many have to wait.
        """
        rotations = self._rotations([*files, *self._cut], now)
        self._cut = []
        unique = {file.stat.id: file for file in (*files, *rotations)}
        files = sorted(unique.values(), key=lambda file: file.stat.modified_ns)
        waiting = max(0, len(files) - self._make_room(len(files), now))
        for file in files[:waiting]:
            self._missed(file)
        for file in files[waiting:]:
            tail = self.search.open(file)
            if tail is None:
                self._missed(file)
                continue
            if tail.id != file.stat.id:  # it was turned just now
                self._missed(file)
            if tail.id in self.files:
                tail.file.close()
                continue
            name = file.log or file.path
            before = (one for one in reversed(self.files.values()) if one.opened_as == name)
            watched = Watched(
                tail,
                file.stat,
                now,
                opened_as=name,
                after=next(before, None),
                served=self.looks,
                named=file.log is None,
                gone_since=now if file.log else None,
                written_ns=file.since_ns,
            )
            self.files[tail.id] = watched
            self._memory.unpark(tail.id)
            if file.source.start is Start.END and file.source.path not in self._searched and file.stat.size:
                self._skip(watched, now)
        return waiting

    def _missed(self, file: Found) -> None:
        """Have a file that is not open looked for again, under whatever name it has by then."""
        path = file.log or file.path
        self._memory.replaced(path, file.since_ns or file.stat.modified_ns)
        self._again.append(file._replace(path=path, log=None, since_ns=0))

    def _make_room(self, wanted: int, now: float) -> int:
        """Close idle files, the longest unchanged first; say how many may be opened."""
        room = self._max_open - len(self.files)
        idle = sorted(
            (one for one in self.files.values() if one.is_idle(now)), key=lambda one: one.changed_at
        )
        for watched in idle[: max(0, min(wanted - room, self._memory.room))]:
            self._park(watched, watched.written_ns)
            room += 1
        return max(0, room)

    def _tell_missing(self, now: float) -> None:
        """Tell what of a log is missing, once all that was found of it has been looked into."""
        for path in self.missing.due(now):
            files = [one for one in self.files.values() if one.opened_as == path]
            busy = any(one.behind_since is not None or (one.fresh and one.changed) for one in files)
            if busy or any(file.path == path for file in (*self._again, *self._cut)):
                self.missing.wait(path, now)
                continue
            ends = (*self._memory.known(), *(one.position() for one in files))
            read_ns = {end.written_ns for end in ends if end.whole and end.path == path}
            self.missing.tell(path, read_ns, is_here=self._is_here)

    def _is_here(self, position: Position) -> bool:
        """Whether an open file holds what was read of one, so a copy of it."""
        for one in self.files.values():
            with contextlib.suppress(OSError):
                head = one.tail.file.pread(0, HEAD_BYTES)
                if position.compare(one.tail.file, head) is not Likeness.DIFFERENT:
                    return True
        return False

    # --- What becomes of one ---------------------------------------------------------------------

    def truncated(self, watched: Watched) -> None:
        """Begin a file anew that no longer holds what was read of it, or was there."""
        self.counts.truncations += 1
        self._look_beside(watched)
        self._begin_anew(watched)

    def _look_beside(self, watched: Watched) -> None:
        """Have the next look find copies that were made of a file before it was cut off."""
        self._memory.replaced(watched.tail.path, watched.written_ns)
        self._cut.append(Found(watched.tail.path, watched.tail.source, watched.stat))

    def _begin_anew(self, watched: Watched) -> None:
        self._memory.remember(watched.position())
        watched.begins_anew()

    def settle(self, watched: Watched, now: float) -> None:
        """Find out whether a file's content is new, as far as that can be known by now."""
        tail = watched.tail
        if watched.stat.size:
            tail.file = text_of(tail.file)
            if watched.is_archive and watched.is_written(now):
                return
            origin = self._recognise(watched)
            if origin is Origin.COMPRESSED and watched.is_rotation:
                self.missing.cannot_read(watched.opened_as, tail.path, watched.stat)
                self._drop(watched)  # where a source names it, too, it is found again, and passed over
            elif origin is Origin.COMPRESSED:
                self.search.pass_over(tail.path)
                self.put_away(watched)
            elif origin is Origin.COPY and watched.is_archive:
                self.put_away(watched)
            watched.fresh = origin in (Origin.COMPRESSED, Origin.COPY)
        watched.changed = watched.skips = False

    def _recognise(self, watched: Watched) -> Origin:
        """Move to where reading begins, or continues."""
        tail = watched.tail
        others = [] if watched.skips else [one.tail for one in self.files.values()]
        # Where it went on in another way, it is no copy of what it was itself.
        former = tail.former if tail.differs() else None
        pasts = (past for past in self._memory.known() if past != former)
        origin, position = recognise(tail.file, others, pasts)
        if position is not None:
            tail.resume(position)
            self._memory.forget(position)
            self.missing.found(position)
        elif origin is Origin.NEW and watched.skips:
            tail.skip_to_end()
        elif origin is Origin.NEW:
            tail.go_on()
        return origin

    def _skip(self, watched: Watched, now: float) -> None:
        """Start at a file's present end, unless its content is known; a compressed file is settled later."""
        watched.skips = True
        try:
            self.settle(watched, now)
        except BlockingIOError:
            watched.is_behind(now)
        except OSError as error:
            self.lose(watched, error)

    def put_away(self, watched: Watched) -> None:
        """Close a compressed file: it will not grow."""
        file = watched.tail.file
        if isinstance(file, Gunzipped) and file.damage:
            self.search.damaged(watched.tail.path, file.damage)
        self._park(watched, written_ns=0)

    def _park(self, watched: Watched, written_ns: int) -> None:
        position = msgspec.structs.replace(watched.position(), written_ns=written_ns)
        self._memory.park(watched.tail.id, position, watched.stat)
        self._drop(watched)

    def lose(self, watched: Watched, error: OSError) -> None:
        """Close a file that the system refuses to read; once it is found again, reading continues."""
        self.search.refuse(watched.tail.path, watched.stat.changed_ns, error)
        self._memory.replaced(watched.opened_as, watched.written_ns)  # it may be turned by then
        self.missing.expect([watched.position()])
        self.forget(watched)

    def forget(self, watched: Watched) -> None:
        """Close a file; its content is remembered."""
        self._memory.remember(watched.position())
        self._drop(watched)

    def _drop(self, watched: Watched) -> None:
        del self.files[watched.tail.id]
        watched.after = None  # or one that waits for it would keep all that were before
        with contextlib.suppress(OSError):  # it is closed for us either way
            watched.tail.file.close()
