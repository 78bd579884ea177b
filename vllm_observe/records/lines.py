"""Cut the bytes of a file into lines."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MAX_LINE_BYTES", "Cut", "Raw", "cut"]

#: A longer line is dropped and counted, so that no writer can fill our memory.
MAX_LINE_BYTES = 1 << 20


class Raw(NamedTuple):
    """A line between two newlines, and its place among the bytes that were cut."""

    start: int
    data: bytes
    whole: bool


class Cut(NamedTuple):
    """The lines of some bytes, and how many of the bytes are done with."""

    lines: list[Raw]
    done: int


def cut(content: bytes, *, inside: bool, max_bytes: int) -> Cut:
    r"""Cut the bytes that follow a position into lines.

    A line ends in a newline; ``\r`` before it goes with it. What follows the last newline is not
    done, so its reader offers it again when there is more. Empty lines are left out. NUL bytes at a
    line's beginning are skipped: a file that was truncated under a writer which kept its place
    starts with a run of them.

    Args:
        content: the bytes.
        inside: the bytes begin within a line that was given up; they are skipped up to its end.
        max_bytes: a longer line comes once, cut to so many bytes, with ``whole`` false.
    """
    at = content.find(b"\n") + 1 if inside else 0
    if inside and at == 0:
        return Cut([], len(content))
    lines: list[Raw] = []
    for data in content[at : content.rfind(b"\n") + 1].split(b"\n")[:-1]:
        text = data.rstrip(b"\r").lstrip(b"\0")
        if text and not text.isspace():
            lines.append(Raw(at, text[:max_bytes], len(text) <= max_bytes))
        at += len(data) + 1
    rest = content[at:]
    at += len(rest) - len(rest.lstrip(b"\0"))
    if len(content) - at > max_bytes:
        lines.append(Raw(at, content[at : at + max_bytes], whole=False))
        at = len(content)
    return Cut(lines, at)
