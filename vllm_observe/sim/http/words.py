"""Tokens without a tokenizer: a word is one, and what the model says means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from vllm_observe.sim.prompts import Segment

__all__ = ["Output", "chat_segments", "id_segments", "text_segments"]

#: Words after which two texts can part and still share a prefix.
_PIECE = 16
_ANSWERER = "assistant"
_WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll"),
    *("larch", "maple", "north", "ochre", "plain", "quill", "river", "stone", "thorn", "umber", "violet"),
)


class Output:
    """What a request will be told: as many words as it may have.

    Args:
        seed: what the words depend on.
        words: how many.
    """

    def __init__(self, seed: str, words: int) -> None:
        self.words = words
        self._words = Random(seed).choices(_WORDS, k=words)  # noqa: S311  # filler that must repeat

    def text(self, start: int, end: int) -> str:
        """Return the words from one to another, as they follow on what was told before."""
        text = " ".join(self._words[start:end])
        return f" {text}" if start and text else text

    @property
    def name(self) -> str:
        """The name of its content, by which a next turn's prompt shares it."""
        return _content(self._words)


def text_segments(text: str, *, most: int) -> tuple[Segment, ...]:
    """Return what a text consists of; the words after ``most`` are one."""
    return tuple(_pieces(text.split(maxsplit=most)))


def id_segments(ids: Sequence[int]) -> tuple[Segment, ...]:
    """Return what a prompt of token ids consists of."""
    return tuple(_pieces([str(number) for number in ids]))


def chat_segments(messages: Iterable[tuple[str, str]], *, most: int) -> tuple[Segment, ...]:
    """Return what a chat consists of: a token for each role, the words, and the answer's role.

    An earlier answer is one segment, as it was when it was made: so it shares its blocks. The words of a
    message after ``most`` are one.
    """
    found: list[Segment] = []
    for role, text in messages:
        words = text.split(maxsplit=most)
        found.append(_role(role))
        found.extend(
            [Segment(_content(words), len(words))] if role == _ANSWERER and words else _pieces(words)
        )
    return (*found, _role(_ANSWERER))


def _role(role: str) -> Segment:
    return Segment(f"role {role}", 1)


def _pieces(words: Sequence[str]) -> Iterator[Segment]:
    for start in range(0, len(words), _PIECE):
        piece = words[start : start + _PIECE]
        yield Segment(_content(piece), len(piece))


def _content(words: Sequence[str]) -> str:
    return f"words {hash(tuple(words))}"
