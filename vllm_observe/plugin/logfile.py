"""The log: a file that several processes append whole lines to, and that is rotated by its size."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

__all__ = ["LogFile", "open_first"]


class LogFile:
    """Appends to ``path``; at ``max_bytes`` it becomes ``path.1``, and so on up to ``path.FILES``.

    The API-server processes of one vLLM share the file. Each write and each rotation holds the file's
    lock and first sees that the file still has its name, so nothing is written to a file that was
    rotated. For one thread.

    Args:
        head: gives the lines to begin each later file with, after a rotation by whomever.

    Raises:
        OSError: the file cannot be opened for writing, or is no regular file.
    """

    def __init__(
        self, path: Path, *, max_bytes: int, files: int, head: Callable[[], bytes] = lambda: b""
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._files = files
        self._head = head
        self._has_written = False
        self._descriptor: int | None = self._open()

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(self.path, flags, 0o644)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(f"{self.path} is no regular file")
        return descriptor

    def append(self, lines: bytes) -> bytes:
        """Write lines, each with its newline, at once; answer what there was no room for.

        Raises:
            OSError: nothing was written.
        """
        while True:
            if self._descriptor is None:
                self._descriptor = self._open()
            descriptor = self._descriptor
            with _locked(descriptor):
                if self._has_its_name(descriptor):
                    size = os.fstat(descriptor).st_size
                    if not size or size + len(lines) <= self._max_bytes:
                        head = self._head() if self._has_written and not size else b""
                        self._has_written = True
                        return _write(descriptor, size, head + lines)
                    self._rotate()
            self.close()

    def _has_its_name(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(self._files, 0, -1):
            older = self._numbered(number - 1)
            with contextlib.suppress(FileNotFoundError):
                older.replace(self._numbered(number))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def close(self) -> None:
        """Close the file; the next `append` opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _write(descriptor: int, size: int, data: bytes) -> bytes:
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data  # somebody was cut off in the middle of a line
    return data[os.write(descriptor, data) :]


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Hold a file's lock, where its file system has locks."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def open_first(paths: Sequence[Path], open_one: Callable[[Path], LogFile]) -> LogFile:
    """Open the first of some logs that can be written.

    Raises:
        OSError: none can; the message says why not the first.
    """
    first: OSError | None = None
    for path in paths:
        try:
            return open_one(path)
        except OSError as error:  # noqa: PERF203  # two paths, once in a process
            first = first or error
    raise first or OSError("no log is named")
