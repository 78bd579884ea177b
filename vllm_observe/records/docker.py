r"""Docker's json-file log format: ``{"log":"<text>\n","stream":"<stdout|stderr>","time":"<time>"}``.

Docker cuts an application's line into pieces of 16 KiB; only the last holds the newline. Other writers of
this format put several lines into one entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from vllm_observe.records.pieces import Piece

__all__ = ["pieces"]


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a json-file log; ``attrs`` holds the labels and variables that the daemon was told to add."""

    log: str
    stream: Literal["stdout", "stderr"]
    time: str
    attrs: dict[str, Any] | None = None


_ENTRY = msgspec.json.Decoder(_Entry)


def pieces(line: bytes) -> Sequence[Piece]:
    """Read a line of Docker's shape; nothing for any other, such as JSON of the application's own."""
    if not line.startswith(b'{"log":'):  # as Docker writes it: the shape of most other lines ends here
        return ()
    try:
        entry = _ENTRY.decode(line)
        text = entry.log.encode()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()
    *whole, rest = text.split(b"\n")
    parts = [Piece(entry.stream, final=True, text=one) for one in whole]
    if rest or not parts:  # the next entry goes on with it
        parts.append(Piece(entry.stream, final=False, text=rest))
    return parts
