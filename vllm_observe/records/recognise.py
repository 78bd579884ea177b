"""Is what stands in a newly found file new, or was it read under another name?

Rotation by copying makes a second file of what was read already, and a log may come back under
another name after a restart. Names and inodes do not tell; the content does.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from vllm_observe.records.files import OpenFile
from vllm_observe.records.gunzip import GZIP_MAGIC
from vllm_observe.records.position import HEAD_BYTES, MARK_BYTES, Likeness, Position
from vllm_observe.records.tail import Tail

__all__ = ["Finding", "Origin", "recognise"]

#: What zstd, xz, bzip2, lz4, zip and compress begin their files with.
_COMPRESSED = (b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"\x04\x22\x4d\x18", b"PK\x03\x04", b"\x1f\x9d")


class Origin(Enum):
    """Where the content of a file comes from."""

    NEW = "new"  # read it from its first byte
    CONTINUES = "continues"  # go on after what was read elsewhere
    COPY = "copy"  # so far all of it was, or is being, read elsewhere: look again when it grows
    COMPRESSED = "compressed"  # no text, and not gzip, which is inflated before it comes here


class Finding(NamedTuple):
    """What a file was recognised as; ``position`` is what a CONTINUES goes on after."""

    origin: Origin
    position: Position | None = None


def recognise(found: OpenFile, others: Iterable[Tail], pasts: Iterable[Position]) -> Finding:
    """Compare a file, of which nothing was read yet, with all that was read.

    Args:
        found: the file, which is not empty: all empty files are alike.
        others: the files that are open; of most of them something was read.
        pasts: what was read of files that are closed, were truncated, or belong to an earlier run.

    Raises:
        OSError: the system could not read.
    """
    head = found.pread(0, HEAD_BYTES)
    if head.startswith(_COMPRESSED):
        return Finding(Origin.COMPRESSED)
    if head and any(magic.startswith(head) for magic in (GZIP_MAGIC, *_COMPRESSED)):
        return Finding(Origin.COPY)  # too little of it is there yet
    alike = [(past.compare(found, head), past) for past in pasts if past.end.offset]
    alike += [_beside(found, head, other) for other in others if other.offset]
    if any(likeness is Likeness.PART for likeness, _ in alike):
        return Finding(Origin.COPY)
    whole = [past for likeness, past in alike if likeness is Likeness.WHOLE]
    if whole:
        return Finding(Origin.CONTINUES, max(whole, key=lambda position: position.end.offset))
    return Finding(Origin.NEW)


def _beside(found: OpenFile, head: bytes, other: Tail) -> tuple[Likeness, Position]:
    """Compare with a file that is being read, and so may itself hold more than was read of it."""
    position = other.position()
    likeness = position.compare(found, head)
    if likeness is Likeness.PART:
        size = found.size()
        start = max(0, size - MARK_BYTES)
        if found.pread(start, size - start) != other.file.pread(start, size - start) and other.is_intact():
            likeness = Likeness.DIFFERENT
    elif likeness is Likeness.WHOLE and (not other.at_end or other.file.size() >= found.size()):
        likeness = Likeness.PART  # what is beyond will be read there, if it is the same
    return likeness, position
