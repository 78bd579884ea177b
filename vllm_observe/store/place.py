"""Where a store lies: whether it can be one, which process writes to it, and whether it is still the same.

SQLite keeps two files beside its own, and all three are one store. It goes on writing to files that
somebody has deleted or replaced, and would play the log of one file into another: so who writes looks
whether all of them are in their places.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

from vllm_observe.errors import ConfigError

__all__ = ["Place"]

#: What SQLite adds to the name: for its write-ahead log, and for the memory that its readers share.
_BESIDE = ("-wal", "-shm")
_ASIDE = ".damaged"
#: How every SQLite file begins.
_MAGIC = b"SQLite format 3\0"
#: What only another path or other permissions mend. A full disk, or a broken one, may heal by itself.
_WRONG_USE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
)

#: A file's device and inode; ``None`` where there is none.
_Identity = tuple[int, int] | None


class Place:
    """A store's file, and the two of SQLite's beside it.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None  # a descriptor of the locked file
        self._known: dict[Path, _Identity] = {}

    def check(self) -> None:
        """Refuse what can never be a store, before anything is made or touched.

        Raises:
            ConfigError: what is wrong, and how to mend it.
        """
        folder = self.path.parent
        try:
            if not folder.is_dir():
                raise self._refusal(f"{folder} is no folder")
            found = self._found()
        except ValueError:  # a NUL character
            raise self._refusal(f"{str(self.path)!a} is no path") from None
        except OSError as error:
            if error.errno in _WRONG_USE:
                raise self._refusal(f"{self.path} cannot be used: {error.strerror}") from None
            return
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise self._refusal(f"{self.path} is no file: name a file, new or a store's")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._refusal(f"{folder} is not writable: SQLite makes files there beside the store's")
        if found is not None and not os.access(self.path, os.R_OK | os.W_OK):
            raise self._refusal(f"{self.path} is not writable")

    def _found(self) -> os.stat_result | None:
        try:
            return self.path.stat()
        except FileNotFoundError:
            return None

    def _refusal(self, why: str) -> ConfigError:
        return ConfigError(f"store (--store): {why}")

    def take(self) -> None:
        """Lock the file for this process, made where there is none.

        The lock is on the file itself: as long as that is there, nothing that somebody deletes lets another
        process in. It ends with the process, however that ends.

        Raises:
            ConfigError: another process has the lock.
            OSError: the file cannot be made or opened.
        """
        if self._lock is not None and _identity(self._lock) == _identity(self.path):
            return
        if (found := self._found()) is not None and not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EISDIR, "what lies in its place is no file")
        taken = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
        try:
            fcntl.flock(taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear(is_new=os.fstat(taken).st_size == 0)
        except BlockingIOError:
            os.close(taken)
            raise self._refusal(
                f"another sidecar writes to {self.path}: stop it, or name another file"
            ) from None
        except OSError:
            os.close(taken)
            raise
        self.leave()
        self._lock = taken

    def _clear(self, *, is_new: bool) -> None:
        """Remove what belongs to the file that was here before: SQLite would take it for this one's."""
        for file in map(self._beside, _BESIDE):
            if is_new or (file in self._known and _identity(file) == self._known[file]):
                file.unlink(missing_ok=True)

    def check_content(self) -> None:
        """Refuse a file of another kind, once it is locked. Zeros are what a loss of power leaves of ours.

        Raises:
            ConfigError: it is no SQLite file.
            OSError: it cannot be read.
        """
        begins = os.pread(self._lock, len(_MAGIC), 0) if self._lock is not None else b""
        if begins.strip(b"\0") and begins != _MAGIC:
            raise self._refusal(f"{self.path} is no SQLite file: name a file, new or a store's")

    def leave(self) -> None:
        """Give the lock up. No connection of this process may be open: a close ends all of SQLite's locks."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remember(self) -> None:
        """Remember which files are the store's, once SQLite has made them.

        Raises:
            OSError: another file than the locked one is in its place already.
        """
        if self._lock is None or _identity(self._lock) != _identity(self.path):
            raise OSError(errno.ESTALE, "it was replaced while it was opened")
        self._known = {file: _identity(file) for file in (self.path, *map(self._beside, _BESIDE))}

    def displaced(self) -> Path | None:
        """Return a file of the store that is gone or another one by now; ``None`` where all are in place."""
        return next((file for file, was in self._known.items() if _identity(file) != was), None)

    @property
    def is_emptied(self) -> bool:
        """Whether somebody has cut the file down to nothing, which SQLite would take for a new one."""
        if self._known.get(self.path) is None or _identity(self.path) != self._known[self.path]:
            return False
        found = self._found()
        return found is not None and found.st_size == 0

    def set_aside(self) -> Path:
        """Rename a damaged store, over what was set aside before; return what its file is called now.

        Raises:
            OSError: it could not be renamed.
        """
        aside = self._beside(_ASIDE)
        for suffix in (*_BESIDE, ""):  # its own file last: without the others it would look whole
            part, kept = self._beside(suffix), aside.with_name(aside.name + suffix)
            kept.unlink(missing_ok=True)
            if part.exists():
                part.replace(kept)
        self._known = {}
        return aside

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _identity(file: Path | int) -> _Identity:
    try:
        found = os.fstat(file) if isinstance(file, int) else file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
