"""The Container Runtime Interface's log format: ``<time> <stdout|stderr> <P|F> <text>``.

containerd and CRI-O cut an application's line into pieces of 8 or 16 KiB; all but the last are
tagged P. The pieces of stdout and stderr interleave.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vllm_observe.records.pieces import Piece

__all__ = ["pieces"]

_SHAPE = re.compile(
    rb"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF])(?::[^ ]*)?(?: (.*))?", re.DOTALL
)


def pieces(line: bytes) -> Sequence[Piece]:
    """Read a line of the CRI shape, which is one piece; nothing for any other."""
    found = _SHAPE.fullmatch(line) if line[:1].isdigit() else None
    return (Piece(found[1].decode(), found[2] == b"F", found[3] or b""),) if found else ()
