"""Prompts as text: as many words as there are tokens, the same for the same content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from vllm_observe.sim.prompts import Segment

__all__ = ["messages"]

_WORDS = (
    *("acorn", "basin", "cloud", "drift", "earth", "field", "glade", "hedge", "islet", "joint", "kiosk"),
    *("ledge", "marsh", "nerve", "olive", "prism", "quiet", "ridge", "slate", "tower", "upper", "valve"),
)
#: Who says a segment, by the first word of its name; the user says all others.
_ROLES = {"system": "system", "answer": "assistant"}


def messages(prompt: Sequence[Segment], said: Callable[[str], str | None]) -> list[dict[str, str]]:
    """Return a prompt as a chat's messages.

    Args:
        prompt: its segments.
        said: gives the text of an earlier answer by its segment's name, if it is known.
    """
    return [
        {
            "role": _ROLES.get(segment.content.partition(" ")[0], "user"),
            "content": said(segment.content) or _words(segment),
        }
        for segment in prompt
    ]


def _words(segment: Segment) -> str:
    return " ".join(Random(segment.content).choices(_WORDS, k=segment.tokens))  # noqa: S311  # filler
