"""Request ids: which client ids an engine's id may stand for.

vLLM makes ``0_cmpl-abc-1-9be01f77`` of a client's ``abc``, in part or in whole, by endpoint and by
release. Undoing that blindly is wrong: a UUID ends in hexadecimal digits and a client may itself
send ``cmpl-7-0``. So nothing is cut here; `candidates` lists what could be meant, and only an id
that an edge record brought makes one of them true. Where an endpoint takes several prompts vLLM
always adds the prompt's index, so that among known ids `indexed` is the one that is meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["candidates", "indexed", "key"]

# Records cut an id of more than 256 characters after 240 of them at the earliest, and what vLLM puts
# around one has less than 40: so up to here an id is whole in both its forms.
_KEY_LENGTH = 200

_OF_PROMPTS = "cmpl|embd|pool|classify|score|rerank"
_ENDPOINTS = f"chatcmpl|{_OF_PROMPTS}|transcribe|translate|trsc|tokn|tokenize|generate-tokens|decision|resp"
# What vLLM puts around an id, the outermost first; the group is what remains without it.
_DECORATIONS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"[0-9]+_(.*)",  # a child, where n > 1
        r"(.*)-[0-9a-f]{8}",  # random, since 0.14.0, where the engine core speaks
        r"(?!(?:[0-9]+_)?chatcmpl-)(.*)-[0-9]+",  # the prompt's index; a chat has but one prompt
        r"(.*)_[0-9]+",  # a turn of /v1/responses
        rf"(?:{_ENDPOINTS})-(.*)",
    )
)
# As vLLM makes it of a prompt of several. Eight digits are no index but a random suffix.
_INDEXED = re.compile(rf"(?:[0-9]+_)?(?:{_OF_PROMPTS})-(.*)-[0-9]{{1,7}}(?:-[0-9a-f]{{8}})?", re.DOTALL)


def key(request_id: str) -> str:
    """The part of an id, wherever it was seen, by which it is known: the whole of it, in practice."""
    return request_id[:_KEY_LENGTH]


def candidates(engine_id: str) -> Sequence[str]:
    """List the ids that an engine's id may stand for, in order of belief.

    The longest comes first, so the id itself: of two ids that are known the one with less cut off is
    meant. Each is given as its `key`.
    """
    stems = [engine_id]
    for decoration in _DECORATIONS:
        stems += [match[1] for match in map(decoration.fullmatch, stems) if match]
    return list(dict.fromkeys(map(key, sorted(stems, key=len, reverse=True))))


def indexed(engine_id: str) -> str | None:
    """Return the id that remains of a prompt's without its index, as its `key`; ``None`` for any other."""
    match = _INDEXED.fullmatch(engine_id)
    return match and key(match[1])
