"""Find the files that sources name, on a file system where any of it may fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.logs import EventLog
from vllm_observe.records.files import FileId, Files, FileStat
from vllm_observe.records.source import Source
from vllm_observe.records.tail import Tail

__all__ = ["Found", "Search"]

#: Seconds to the first and to the longest wait before what failed is tried again.
_RETRY_FIRST_S, _RETRY_MOST_S = 1.0, 30.0


class Found(NamedTuple):
    """A regular file, under one of its names."""

    path: str
    source: Source
    stat: FileStat


@dataclasses.dataclass
class _Refusal:
    """What the system would not let us do, and when to try again."""

    since: float
    wait: float
    retry_at: float
    changed_ns: int | None  # when that time changes, somebody mended the file's mode


class Search:
    """Looks for files, and opens them.

    No error leaves it: one is counted, told once, and tried again after longer and longer waits, or
    as soon as the file changes. What is no regular file is told once.

    Attributes:
        errors: how often the system refused to list, to look or to open.
    """

    def __init__(self, *, sources: Sequence[Source], files: Files, clock: Clock, max_line: int) -> None:
        self.errors = 0
        self._sources = tuple(sources)
        self._files = files
        self._clock = clock
        self._max_line = max_line
        self._log = EventLog("records")
        self._refusals: dict[str, _Refusal] = {}
        self._told: set[tuple[str, str]] = set()

    def find(self) -> dict[FileId, Found]:
        """List all files, each under its first name; they are looked at, not opened."""
        found: dict[FileId, Found] = {}
        seen: set[str] = set()
        for source in self._sources:
            paths = self._match(source.path)
            seen.update(paths, (source.path,))
            for path in paths:
                file = self.look(path, source)
                if file is not None:
                    found.setdefault(file.stat.id, file)
        self._refusals = {path: refusal for path, refusal in self._refusals.items() if path in seen}
        self._told = {(event, path) for event, path in self._told if path in seen}
        return found

    def look(self, path: str, source: Source) -> Found | None:
        """Look at what a path leads to; ``None`` where that is no file, or not to be seen."""
        try:
            stat = self._files.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._tell("no file yet", path)
            return None
        except OSError as error:
            if not self._must_wait(path, None):
                self.refuse(path, None, error)
            return None
        self._told.discard(("no file yet", path))
        if path in self._refusals and self._refusals[path].changed_ns is None:
            del self._refusals[path]
        if not stat.regular:
            self._tell("not a regular file", path)
            return None
        return Found(path, source, stat)

    def open(self, found: Found) -> Tail | None:
        """Open a file; ``None`` where that is refused, or was a moment ago."""
        path, source, stat = found
        if self._must_wait(path, stat.changed_ns):
            return None
        try:
            tail = Tail(self._files.open(path), source, path, max_line=self._max_line)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.refuse(path, stat.changed_ns, error)
            return None
        self._refusals.pop(path, None)
        return tail

    def refuse(self, path: str, changed_ns: int | None, error: OSError) -> None:
        """Count that the system refused a path, and leave it alone for a while.

        Args:
            path: the path, or the pattern.
            changed_ns: when the file last changed; another time is reason enough to try again.
            error: what the system said.
        """
        self.errors += 1
        now = self._clock.monotonic()
        known = self._refusals.get(path)
        wait = _RETRY_FIRST_S if known is None else min(2 * known.wait, _RETRY_MOST_S)
        self._refusals[path] = _Refusal(known.since if known else now, wait, now + wait, changed_ns)
        if known is None:
            self._log.warning("cannot read a request log", path=path, error=error.strerror)

    def refused_since(self) -> float | None:
        """Say since when something has been refused, on the monotonic clock."""
        return min((refusal.since for refusal in self._refusals.values()), default=None)

    def pass_over(self, path: str) -> None:
        """Tell once that a file is compressed, so not followed."""
        self._tell("a compressed file is passed over", path)

    def _match(self, pattern: str) -> list[str]:
        if self._must_wait(pattern, None):
            return []
        try:
            paths = self._files.match(pattern)
        except FileNotFoundError:
            paths = []
        except OSError as error:
            self.refuse(pattern, None, error)
            return []
        if paths != [pattern]:  # that one is looked at next, and may be refused for itself
            self._refusals.pop(pattern, None)
        if not paths:
            self._tell("no file yet", pattern)
        return paths

    def _must_wait(self, path: str, changed_ns: int | None) -> bool:
        refusal = self._refusals.get(path)
        if refusal is None or refusal.changed_ns != changed_ns:
            return False
        return self._clock.monotonic() < refusal.retry_at

    def _tell(self, event: str, path: str) -> None:
        if (event, path) not in self._told:
            self._told.add((event, path))
            self._log.info(event, path=path)
