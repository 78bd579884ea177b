"""The grammar of one line of an exposition: a comment that describes a family, or a sample.

It is what text 0.0.4, text 1.0.0 and OpenMetrics have in common, and lenient where they differ.
Every pattern reads a line once from left to right, so that no line costs more than its length.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_observe.model import Exemplar

__all__ = [
    "Description",
    "Head",
    "Labels",
    "Tail",
    "number",
    "read_description",
    "read_head",
    "read_tail",
    "unescape",
]

Labels = tuple[tuple[str, str], ...]

_METRIC_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'

_NAME = re.compile(rf"({_METRIC_NAME})[ \t]*")
_LABEL = re.compile(rf"[ \t]*(?:({_LABEL_NAME})|{_QUOTED})[ \t]*(?:=[ \t]*{_QUOTED}[ \t]*)?(?:,|(?=\}}))")
_CLOSE = re.compile(r"[ \t]*\}")
_DESCRIPTION = re.compile(
    rf"#[ \t]+(HELP|TYPE|UNIT)[ \t]+(?:({_METRIC_NAME})|{_QUOTED})(?:[ \t]+(.*))?", re.DOTALL
)
_ESCAPE = re.compile(r'\\([\\n"])')
_ESCAPE_WITHOUT_QUOTE = re.compile(r"\\([\\n])")


class Description(NamedTuple):
    """A comment that describes a family: ``word`` is HELP, TYPE or UNIT, ``text`` keeps its escapes."""

    word: str
    name: str
    text: str


class Head(NamedTuple):
    """The series that a line begins with, and where it ends in that line."""

    name: str
    labels: Labels
    end: int


class Tail(NamedTuple):
    """What follows a series. A timestamp is read over: the time of the scrape is the sample's."""

    value: float
    exemplar: Exemplar | None = None


def read_description(line: str) -> Description | None:
    """Read a HELP, TYPE or UNIT comment; ``None`` for any other line."""
    match = _DESCRIPTION.fullmatch(line)
    if match is None:
        return None
    word, bare, quoted, text = match.groups()
    return Description(word, bare or unescape(quoted), text or "")


def read_head(line: str) -> Head | None:
    """Read the series at the beginning of a line; ``None`` where there is none.

    A series has one name: before its labels, or quoted among them. One that has a label twice is
    none, nor is one with the label ``__name__``, which is the name's own place.
    """
    bare = _NAME.match(line)
    brace = bare.end() if bare else 0
    if not line.startswith("{", brace):
        return Head(bare[1], (), bare.end(1)) if bare and bare.end() > bare.end(1) else None
    block = _read_labels(line, brace)
    if block is None:
        return None
    quoted, labels, end = block
    names = [bare[1], *quoted] if bare else quoted
    return Head(names[0], labels, end) if len(names) == 1 and names[0] else None


def read_tail(text: str) -> Tail | None:
    """Read a value, perhaps with a timestamp and an exemplar; ``None`` for anything else."""
    numbers, mark, rest = text.partition("#")
    value = _value_and_time(numbers)
    if value is None:
        return None
    exemplar = _read_exemplar(rest) if mark else None
    return None if mark and exemplar is None else Tail(value[0], exemplar)


def number(token: str) -> float | None:
    """Read a number as expositions write it: what Python calls a float, in ASCII and without ``_``."""
    if "_" in token or not token.isascii():
        return None
    try:
        return float(token)
    except ValueError:
        return None


def unescape(text: str, *, quotes: bool = True) -> str:
    r"""Undo the escapes ``\\``, ``\n`` and, but for the HELP of text 0.0.4, ``\"``; no others exist."""
    return (_ESCAPE if quotes else _ESCAPE_WITHOUT_QUOTE).sub(_meant, text) if "\\" in text else text


def _meant(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def _read_labels(line: str, brace: int) -> tuple[list[str], Labels, int] | None:
    """Read a block from its brace on: the metric names quoted in it, the labels, and its end."""
    names: list[str] = []
    labels: dict[str, str] = {}
    at = brace + 1
    while (match := _LABEL.match(line, at)) is not None:
        bare, quoted, value = match.groups()
        name = bare or unescape(quoted)
        if value is None:
            if bare:
                return None
            names.append(name)
        elif name in labels or name in {"", "__name__"}:
            return None
        else:
            labels[name] = unescape(value)
        at = match.end()
    close = _CLOSE.match(line, at)
    return (names, tuple(labels.items()), close.end()) if close else None


def _read_exemplar(text: str) -> Exemplar | None:
    brace = len(text) - len(text.lstrip(" \t"))
    block = _read_labels(text, brace) if text.startswith("{", brace) else None
    if block is None or block[0]:
        return None
    value = _value_and_time(text[block[2] :])
    return Exemplar(block[1], *value) if value else None


def _value_and_time(text: str) -> tuple[float, float | None] | None:
    """Read one number, or two."""
    numbers = [number(token) for token in text.split()]
    if not 1 <= len(numbers) <= 2 or numbers[0] is None or numbers[-1] is None:  # noqa: PLR2004  # one or two
        return None
    return numbers[0], (numbers[1] if len(numbers) > 1 else None)
