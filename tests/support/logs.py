"""A follower under test, with a clock of its own and a file system on which things can go wrong."""

from __future__ import annotations

from pathlib import Path

from vllm_observe.clock import ManualClock
from vllm_observe.records.files import FileId, FileStat, OpenFile, OsFiles
from vllm_observe.records.follow import Follower
from vllm_observe.records.source import Line, Source


class ShakyFiles(OsFiles):
    """The real file system, but for what a test takes away.

    ``refused`` holds paths that neither open nor list; ``inodes`` the inode that a path pretends to
    have; ``opened`` counts what is open now.
    """

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.inodes: dict[str, int] = {}
        self.opened = 0
        self.looks = 0

    def match(self, pattern: str) -> list[str]:
        self._check(pattern)
        return super().match(pattern)

    def stat(self, path: str) -> FileStat:
        self.looks += 1
        return self._disguised(path, super().stat(path))

    def open(self, path: str) -> OpenFile:
        self._check(path)
        return _Opened(super().open(path), path, self)

    def _check(self, path: str) -> None:
        if path in self.refused:
            raise PermissionError(13, "Permission denied", path)

    def _disguised(self, path: str, stat: FileStat) -> FileStat:
        inode = self.inodes.get(path, stat.id.inode)
        return stat._replace(id=FileId(stat.id.device, inode))


class _Opened:
    def __init__(self, file: OpenFile, path: str, files: ShakyFiles) -> None:
        self._file = file
        self._path = path
        self._files = files
        files.opened += 1

    def stat(self) -> FileStat:
        return self._files._disguised(self._path, self._file.stat())

    def pread(self, offset: int, size: int) -> bytes:
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
        while self.follower.behind:
            found += self.follower.poll()
        return found

    def poll(self) -> list[str]:
        return [line.data.decode() for line in self.lines()]

    def restart(self) -> None:
        """Stop the follower, and start another where it stood."""
        positions = self.follower.positions()
        self.follower.close()
        self.follower = self._new()
        self.follower.restore(positions)


def write(path: Path, text: str, mode: str = "a") -> None:
    """Append to a file as a logger does, or write it anew with mode ``w``."""
    with path.open(mode, encoding="utf-8", newline="") as file:
        file.write(text)
