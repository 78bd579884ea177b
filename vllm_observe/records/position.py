"""What was read of a file, known by its content: so that it is found again under any name.

Logs get copied, renamed, cut short and moved to other disks, and inodes are given away again. So a
position remembers a few places of what was read, and a hash of the bytes before each: the ends of
the first lines, and the place that reading has come to. The bytes themselves are not kept, since
positions are written to disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum

import msgspec

from vllm_observe.records.files import OpenFile

__all__ = [
    "HEAD_BYTES",
    "MARK_BYTES",
    "Likeness",
    "Mark",
    "Places",
    "Position",
    "Positions",
    "mark_at",
    "marks_of",
]

#: The bytes before a place that tell whether it is the same place: the last few records.
MARK_BYTES = 4096
#: The first bytes of a file that are looked at when it is compared.
HEAD_BYTES = 1 << 16
#: Lines whose ends are all marked: files that have these in common are copies of each other.
_FIRST_LINES = 8
#: Places of an open file that are remembered.
_MOST_PLACES = 256


class Likeness(Enum):
    """What a file has in common with a position."""

    DIFFERENT = "different"
    PART = "part"  # it may be a copy that ends before the position; also a file without a whole line
    WHOLE = "whole"  # it holds all that was read up to the position


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A place in a file, and the hash of the bytes before it."""

    offset: int
    digest: str

    def compare(self, file: OpenFile, head: bytes = b"") -> Likeness:
        """Say whether the same bytes stand before it in a file; PART where that ends before it.

        Args:
            file: the file.
            head: its first bytes, so far as they were read already.
        """
        start = max(0, self.offset - MARK_BYTES)
        before = head[start : self.offset] if self.offset <= len(head) else b""
        before = before or file.pread(start, self.offset - start)
        if len(before) < self.offset - start:
            return Likeness.PART
        return Likeness.WHOLE if mark_at(self.offset, before) == self else Likeness.DIFFERENT


def mark_at(offset: int, before: bytes) -> Mark:
    """Mark a place, given at least the :data:`MARK_BYTES` before it, or all that there are."""
    return Mark(offset, hashlib.blake2b(before[-MARK_BYTES:], digest_size=8).hexdigest())


def marks_of(content: bytes, known: tuple[Mark, ...], before: bytes, offset: int) -> tuple[Mark, ...]:
    """Mark the ends of a file's first lines.

    Args:
        content: what follows the marks that are known.
        known: the marks of the lines before.
        before: the bytes before the content, :data:`MARK_BYTES` or all that there are.
        offset: where the content begins.
    """
    marks = list(known)
    at = 0
    while len(marks) < _FIRST_LINES and (at := content.find(b"\n", at) + 1):
        marks.append(mark_at(offset + at, before + content[max(0, at - MARK_BYTES) : at]))
    return tuple(marks)


class Places:
    """Marks of line ends, evenly spread over what was read of an open file; too many to be written down.

    Up to a megabyte there is one for every :data:`MARK_BYTES`, so that they cover all that was read.
    """

    def __init__(self, marks: Sequence[Mark] = ()) -> None:
        self.marks = list(marks)
        self._apart = MARK_BYTES

    def add(self, content: bytes, before: bytes, offset: int) -> None:
        """Mark what was read now: the content at an offset, and the bytes before it as in `mark_at`."""
        while True:
            last = self.marks[-1].offset if self.marks else 0
            end = content.find(b"\n", max(0, last + self._apart - offset)) + 1
            if not end:
                return
            self.marks.append(mark_at(offset + end, before + content[max(0, end - MARK_BYTES) : end]))
            if len(self.marks) > _MOST_PLACES:
                del self.marks[::2]
                self._apart *= 2


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file was read: all lines before ``end`` were handed out, none from there on.

    ``pending`` holds, for each stream of a CRI log whose line was not complete, where that line
    begins. Path, device and inode are for people: they say what the system called the file then.
    ``written_ns`` is when the file, if it was still being read, had last been written to; else 0.
    ``whole`` says that it held no more then; ``rest`` that there may be more by now, since it was the log
    itself or was not read to its end.
    """

    path: str
    device: int
    inode: int
    end: Mark
    marks: tuple[Mark, ...] = ()
    pending: dict[str, int] = {}
    written_ns: int = 0
    whole: bool = False
    rest: bool = False

    def compare(self, file: OpenFile, head: bytes) -> Likeness:
        """Compare with a file, given its first :data:`HEAD_BYTES`.

        Raises:
            OSError: the system could not read.
        """
        # Of the first lines every end is marked, so a line that ends elsewhere is another line.
        ends = head[: self.marks[-1].offset if self.marks else None].rfind(b"\n") + 1
        if self.marks and ends and all(mark.offset != ends for mark in self.marks):
            return Likeness.DIFFERENT
        for mark in (*self.marks, self.end):
            likeness = mark.compare(file, head)
            if likeness is Likeness.PART and ends and not self.marks:
                return Likeness.DIFFERENT
            if likeness is not Likeness.WHOLE:
                return likeness
        return Likeness.WHOLE


class Positions(msgspec.Struct, frozen=True, kw_only=True):
    """How far a follower came: what the next one goes on after.

    ``sources`` are the paths and globs whose files it had looked for; others are new to the next.
    ``since`` says from when on, in nanoseconds since the Unix epoch: a log that is not among ``files``
    was not there then, so all that was written to it since is new, whatever rotation calls it by now.
    """

    sources: tuple[str, ...]
    files: tuple[Position, ...]
    since: dict[str, int] = {}
