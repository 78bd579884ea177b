"""What a prompt consists of, without its words: enough to know which blocks two prompts share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Segment", "block_keys", "length"]


class Segment(NamedTuple):
    """A stretch of tokens. Where two prompts begin with the same contents, they share a prefix."""

    content: str
    tokens: int


def length(segments: Sequence[Segment]) -> int:
    """Return the number of tokens."""
    return sum(segment.tokens for segment in segments)


def block_keys(segments: Sequence[Segment], block_size: int) -> list[int]:
    """Return the key of each full block: equal where all tokens up to the block's end are equal.

    A block that ends in a segment depends on all segments before it and on how far it reaches, so
    the keys within a segment are consecutive numbers from a hash of what comes before.
    """
    keys: list[int] = []
    before, start = 0, 0
    for content, tokens in segments:
        first = hash((before, content))
        keys.extend(range(first + start // block_size, first + (start + tokens) // block_size))
        before = hash((before, content, tokens))
        start += tokens
    return keys
