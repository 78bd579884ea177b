"""A follower under test, with a clock of its own and a file system on which things can go wrong."""

from __future__ import annotations

from pathlib import Path

from vllm_observe.clock import ManualClock
from vllm_observe.records.files import FileId, FileStat, OpenFile, OsFiles
from vllm_observe.records.follow import Follower
from vllm_observe.records.position import Positions
from vllm_observe.records.source import Line, Source


class ShakyFiles(OsFiles):
    """The real file system, but for what a test takes away.

    ``refused`` holds paths that neither open nor list, ``hidden`` those that cannot be looked at and
    ``broken`` those that cannot be read; ``unlisted`` the folders that cannot be listed; ``frozen`` what a path pretends to look like; ``inodes`` the
    inode that it pretends to have. ``opened`` counts what is open now, ``opens`` and ``looks`` all
    that ever were, and ``listings`` how often a folder was listed. ``later_ns`` is how much later it is than
    the times of its files say, since no test waits.
    """

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.hidden: set[str] = set()
        self.broken: set[str] = set()
        self.unlisted: set[str] = set()
        self.frozen: dict[str, FileStat] = {}
        self.inodes: dict[str, int] = {}
        self.opened = 0
        self.opens = 0
        self.looks = 0
        self.listings = 0
        self.later_ns = 0

    def now_ns(self) -> int:
        return super().now_ns() + self.later_ns

    def match(self, pattern: str) -> list[str]:
        if "*" in pattern:  # a path as such is not listed, it is opened
            self._check(pattern, self.refused)
        return super().match(pattern)

    def names(self, folder: str) -> list[str]:
        self.listings += 1
        self._check(folder, self.unlisted)
        return super().names(folder)

    def stat(self, path: str) -> FileStat:
        self.looks += 1
        self._check(path, self.hidden)
        return self.frozen.get(path) or self.disguised(path, super().stat(path))

    def open(self, path: str) -> OpenFile:
        self._check(path, self.refused)
        return _Opened(super().open(path), path, self)

    def check_readable(self, path: str) -> None:
        if path in self.broken:
            raise OSError(5, "Input/output error", path)

    def disguised(self, path: str, stat: FileStat) -> FileStat:
        inode = self.inodes.get(path, stat.id.inode)
        return stat._replace(id=FileId(stat.id.device, inode))

    def _check(self, path: str, refused: set[str]) -> None:
        if path in refused:
            raise PermissionError(13, "Permission denied", path)


class _Opened:
    def __init__(self, file: OpenFile, path: str, files: ShakyFiles) -> None:
        self._file = file
        self._path = path
        self._files = files
        files.opened += 1
        files.opens += 1

    def stat(self) -> FileStat:
        return self._files.disguised(self._path, self._file.stat())

    def size(self) -> int:
        return self.stat().size

    def pread(self, offset: int, size: int) -> bytes:
        self._files.check_readable(self._path)
        return self._file.pread(offset, size)

    def close(self) -> None:
        self._files.opened -= 1
        self._file.close()


class Followed:
    """A follower of one source or more; ``poll`` gives the lines as texts."""

    def __init__(self, *sources: Source | Path | str, **options: int) -> None:
        self.sources = [
            source if isinstance(source, Source) else Source(path=str(source)) for source in sources
        ]
        self.clock = ManualClock()
        self.files = ShakyFiles()
        self._options = options
        self.follower = self._new()

    def _new(self) -> Follower:
        return Follower(sources=self.sources, clock=self.clock, files=self.files, **self._options)

    def lines(self) -> list[Line]:
        """Poll once, a moment later, until there is no more; every poll also looks for new files."""
        self.clock.advance(1.0)
        found = self.follower.poll()
        for _ in range(1000):
            if not self.follower.behind:
                return found
            found += self.follower.poll()
        raise AssertionError("the follower is behind for ever")

    def poll(self) -> list[str]:
        return [line.data.decode() for line in self.lines()]

    def restart(self) -> None:
        """Stop the follower, and start another where it stood."""
        self.killed(self.follower.positions())

    def killed(self, kept: Positions | None) -> None:
        """Start another follower where the last progress was kept, whatever this one has done since."""
        self.follower.close()
        self.follower = self._new()
        if kept is not None:
            self.follower.restore(kept)


def write(path: Path, text: str, mode: str = "a") -> None:
    """Append to a file as a logger does, or write it anew with mode ``w``."""
    with path.open(mode, encoding="utf-8", newline="") as file:
        file.write(text)
