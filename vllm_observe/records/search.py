"""Find the files that sources name, on a file system where any of it may fail."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from typing import NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.logs import EventLog
from vllm_observe.records.files import FileId, Files, FileStat
from vllm_observe.records.rotated import keeps_rotations, log_of
from vllm_observe.records.source import Source
from vllm_observe.records.tail import Tail

__all__ = ["Found", "Search"]

#: Seconds to the first and to the longest wait before what failed is tried again.
_RETRY_FIRST_S, _RETRY_MOST_S = 1.0, 30.0


class Found(NamedTuple):
    """A regular file, under one of its names, and the log whose rotation it is, if no source names it.

    ``since_ns`` is the time from which on rotations of that log were looked for; 0 for any other file.
    """

    path: str
    source: Source
    stat: FileStat
    log: str | None = None
    since_ns: int = 0


@dataclasses.dataclass
class _Refusal:
    """A path that the system refused, and when to try again."""

    since: float
    wait: float
    retry_at: float
    changed_ns: int | None  # another time means that somebody may have corrected the file's mode


class Search:
    """Looks for files, and opens them.

    It raises no error: each is counted, logged once, and retried after longer and longer waits, or as soon
    as the file changes. What is not a regular file is logged once.

    Attributes:
        errors: how often the system refused to list, to look or to open.
    """

    def __init__(self, *, sources: Sequence[Source], files: Files, clock: Clock, max_line: int) -> None:
        self.errors = 0
        self._sources = tuple(sources)
        self._named = frozenset(source.path for source in sources)
        self._files = files
        self._clock = clock
        self._max_line = max_line
        self._log = EventLog("records")
        self._refusals: dict[str, _Refusal] = {}
        self._reported: set[tuple[str, str]] = set()

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
        self._reported = {(event, path) for event, path in self._reported if path in seen}
        return found

    def look(self, path: str, source: Source) -> Found | None:
        """Look at what a path leads to; ``None`` where that is no file, or not to be seen."""
        try:
            stat = self._files.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            self._report_once("no file yet", path)
            return None
        except OSError as error:
            if not self._must_wait(path, None):
                self.refuse(path, None, error)
            return None
        self._reported.discard(("no file yet", path))
        if path in self._refusals and self._refusals[path].changed_ns is None:
            del self._refusals[path]
        if not stat.regular:
            self._report_once("not a regular file", path)
            return None
        return Found(path, source, stat)

    def rotations(self, logs: Sequence[tuple[Found, int]]) -> list[Found]:
        """List the files that a log became since it was last read, though no source may name them.

        Args:
            logs: what now lies under a log's name, and when what was read under it had been written,
                in nanoseconds. What was written earlier is none of ours.
        """
        by_path = {}
        for log, since in logs:
            by_path[log.path] = by_path[self._files.resolve(log.path)] = log, since
        found = []
        for folder in {os.path.dirname(path) for path in by_path}:  # noqa: PTH120  # one of thousands
            for path in self._beside(folder):
                name = os.path.basename(path)  # noqa: PTH119
                for known in {os.path.join(folder, log) for log in log_of(name)} & by_path.keys():  # noqa: PTH118
                    log, since = by_path[known]
                    file = self.look(path, log.source)
                    if file is not None and file.stat.modified_ns >= since:
                        found.append(file._replace(log=log.path, since_ns=since))
        return found

    def open(self, found: Found) -> Tail | None:
        """Open a file; ``None`` where that is refused, or was a moment ago."""
        path, source, stat = found.path, found.source, found.stat
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
        """Count that the system refused a path, and do not try it again for a while.

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
        """Log once that a file is not followed, because its compression is not understood."""
        self._report_once("a compressed file is passed over", path)

    def damaged(self, path: str, damage: str) -> None:
        """Count that a compressed file could not be read to its end, and log it once."""
        self.errors += 1
        self._report_once(f"a compressed log is {damage}", path)

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
            self._report_once("no file yet", pattern)
        return paths

    def _beside(self, folder: str) -> list[str]:
        """List what is in a folder, and in those in it that are for rotations, but for what a source names."""
        paths = [os.path.join(folder, name) for name in self._names(folder or os.curdir)]  # noqa: PTH118
        for kept in [path for path in paths if keeps_rotations(os.path.basename(path))]:  # noqa: PTH119
            with contextlib.suppress(OSError):  # if anything is missing then, that is told
                paths += [os.path.join(kept, name) for name in self._files.names(kept)]  # noqa: PTH118
        return [path for path in paths if path not in self._named]

    def _names(self, folder: str) -> list[str]:
        try:
            return self._files.names(folder)
        except OSError as error:
            self.refuse(folder, None, error)
            return []

    def _must_wait(self, path: str, changed_ns: int | None) -> bool:
        refusal = self._refusals.get(path)
        if refusal is None or refusal.changed_ns != changed_ns:
            return False
        return self._clock.monotonic() < refusal.retry_at

    def _report_once(self, event: str, path: str) -> None:
        if (event, path) not in self._reported:
            self._reported.add((event, path))
            self._log.info(event, path=path)
