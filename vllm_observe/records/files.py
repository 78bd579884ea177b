"""The few things that following files asks of the operating system, as a seam for tests."""

from __future__ import annotations

import errno
import glob
import os
import stat
import time
from typing import NamedTuple, Protocol

__all__ = ["FileId", "FileStat", "Files", "OpenFile", "OsFiles"]

#: How far the times of files lag behind the clock: the kernel takes them from its last tick.
_TICK_NS = 20_000_000


class FileId(NamedTuple):
    """What the system calls one file, whatever its names. It may be given away again after deletion."""

    device: int
    inode: int


class FileStat(NamedTuple):
    """What a file looks like now; the times are nanoseconds since the Unix epoch."""

    id: FileId
    size: int
    modified_ns: int
    changed_ns: int  # content, mode or owner
    regular: bool


class OpenFile(Protocol):
    """A file that stays readable under any name, or none. Every method may raise :class:`OSError`."""

    def stat(self) -> FileStat:
        """Look at the file behind the open descriptor."""

    def size(self) -> int:
        """Say how many bytes there are to read."""

    def pread(self, offset: int, size: int) -> bytes:
        """Read up to so many bytes at an offset; fewer only at the file's end."""

    def close(self) -> None:
        """Give the descriptor back."""


class Files(Protocol):
    """A file system. Every method but ``now_ns`` raises :class:`OSError` as the system does."""

    def now_ns(self) -> int:
        """Give a time that no file which is written to from now on goes below, but all earlier ones do."""

    def match(self, pattern: str) -> list[str]:
        """List the paths that a pattern names, sorted. A path that is there as written is itself."""

    def stat(self, path: str) -> FileStat:
        """Look at what a path leads to, through symbolic links."""

    def resolve(self, path: str) -> str:
        """Give the path of what a path leads to, through symbolic links."""

    def names(self, folder: str) -> list[str]:
        """List what is in a folder."""

    def open(self, path: str) -> OpenFile:
        """Open a file for reading; never waits for a writer."""


class OsFiles:
    """The file system of the machine."""

    def now_ns(self) -> int:
        """Give a time that no file which is written to from now on goes below, but all earlier ones do."""
        return time.time_ns() - _TICK_NS

    def match(self, pattern: str) -> list[str]:
        """List the paths that a pattern names, sorted. A path that is there as written is itself."""
        if os.path.lexists(pattern) or not glob.has_magic(pattern):
            return [pattern]
        found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  # Path takes no absolute one
        if not found:
            with os.scandir(_fixed_part(pattern)):  # glob itself passes over what it may not list
                pass
        return found

    def stat(self, path: str) -> FileStat:
        """Look at what a path leads to, through symbolic links."""
        try:
            return _stat(os.stat(path))  # noqa: PTH116  # every poll looks at every file: twice as fast
        except ValueError as error:  # a NUL in the path
            raise OSError(errno.EINVAL, str(error)) from None

    def resolve(self, path: str) -> str:
        """Give the path of what a path leads to, through symbolic links."""
        return os.path.realpath(path)

    def names(self, folder: str) -> list[str]:
        """List what is in a folder."""
        return os.listdir(folder)  # noqa: PTH208  # names are wanted, and no paths

    def open(self, path: str) -> OpenFile:
        """Open a file for reading; never waits for a writer."""
        # O_NONBLOCK: a FIFO put in the file's place just now must not hold us.
        return _OsFile(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))


class _OsFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def stat(self) -> FileStat:
        return _stat(os.fstat(self._descriptor))

    def size(self) -> int:
        return self.stat().size

    def pread(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def close(self) -> None:
        os.close(self._descriptor)


def _fixed_part(pattern: str) -> str:
    """Give the directory in which a pattern begins to vary."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)  # noqa: PTH120  # a pattern is no path
    return pattern or os.curdir


def _stat(found: os.stat_result) -> FileStat:
    return FileStat(
        id=FileId(found.st_dev, found.st_ino),
        size=found.st_size,
        modified_ns=found.st_mtime_ns,
        changed_ns=found.st_ctime_ns,
        regular=stat.S_ISREG(found.st_mode),
    )
