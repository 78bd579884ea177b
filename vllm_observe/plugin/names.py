"""Names and ids of any length in a form that is short, and the same wherever one is read."""

from __future__ import annotations

import hashlib

__all__ = ["HEAD", "MOST_CHARACTERS", "TAIL", "bounded", "is_bounded"]

MOST_CHARACTERS = 256
#: Characters that are kept at either end: more than vLLM puts there around a request id, so that the join
#: can undo that.
HEAD, TAIL = 160, 79
_HASH = MOST_CHARACTERS - HEAD - TAIL - 2


def bounded(text: str) -> str:
    """Give a text of more than 256 characters a form of 256, the same for the same text.

    It is the text's beginning and its end, and between them a hash of the whole.
    """
    if len(text) <= MOST_CHARACTERS:
        return text
    whole = hashlib.blake2b(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:HEAD]}…{whole[:_HASH]}…{text[-TAIL:]}"


def is_bounded(text: str) -> bool:
    """Say whether a text is such a form."""
    return len(text) == MOST_CHARACTERS and text[HEAD] == "…" == text[-TAIL - 1]
