"""A ready map: where a well-known program's JSON log keeps what record format 1 asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vllm_observe.config import FieldRule
from vllm_observe.model import Record
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.format1 import build, load

__all__ = ["Mapped", "ReadyMap", "at"]

Found = Mapping[str, Any]


class ReadyMap(NamedTuple):
    """How one program's log is read.

    ``rules`` are a field map as an operator could write it. ``derive`` takes the line and the fields
    that the rules found in it, and gives those that take more than one place of the line to know; it
    sees whatever JSON can hold. ``concerns`` says whether a line tells of a request to a model.
    ``text`` reads a text in which bad bytes stand as halves of surrogate pairs.
    """

    rules: Mapping[str, FieldRule | None]
    derive: Callable[[Found, Found], dict[str, Any]]
    concerns: Callable[[Found], bool] = lambda _: True
    text: Callable[[str], str] = str


def at(place: str, *, scale: float = 1.0) -> FieldRule:
    """Make a rule: the key or the dotted path of a field, and what its number is multiplied by."""
    return FieldRule.model_validate({"from": place, "scale": scale})


class Mapped:
    """Decodes the lines of a log with a ready map; the operator's own rules go before the map's.

    Raises:
        ConfigError: an own rule is for a field that format 1 has not.
    """

    def __init__(self, ready: ReadyMap, own: Mapping[str, FieldRule | None]) -> None:
        self._ready = ready
        self._own = own.keys()
        self._fields = FieldMap({**ready.rules, **own})

    def __call__(self, line: bytes) -> Sequence[Record]:
        """Decode one line.

        Raises:
            RecordError: it is no record.
        """
        found = load(line)
        if not self._ready.concerns(found):
            return ()
        text = self._ready.text
        named = {
            field: text(value) if isinstance(value, str) else value
            for field, value in self._fields.apply(found).items()
        }
        derived = self._ready.derive(found, named)
        named.update((field, value) for field, value in derived.items() if field not in self._own)
        return (build(named),)
