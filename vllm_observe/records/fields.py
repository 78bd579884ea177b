"""A field map: where a log of any shape keeps what record format 1 asks for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from vllm_observe.config import FieldRule
from vllm_observe.errors import ConfigError
from vllm_observe.records.schema import FIELDS
from vllm_observe.records.values import number

__all__ = ["FieldMap"]


class _Place(NamedTuple):
    """Where one field is found, and what makes its unit ours."""

    name: str  # as written: a literal key may hold dots
    steps: tuple[str, ...]
    scale: float | None = None


class FieldMap:
    """Turns a JSON object with names of its own into one with the names of format 1.

    ``rules`` say for a field of format 1 where it stands. That may lead into nested objects, arrays
    and JSON kept in a string (``metadata.user_id.session_id``, ``choices.0.finish_reason``); a key that
    itself holds the dots comes first. A scale multiplies a number or its text: 0.001 for milliseconds.
    ``None`` leaves a field out, which helps where an app means something else by it.

    Fields without a rule are taken under their own names; only ``kind`` must be mapped to be believed,
    since apps use that word freely.

    Raises:
        ConfigError: a field is not one of format 1.
    """

    def __init__(self, rules: Mapping[str, FieldRule | None]) -> None:
        for field in rules.keys() - FIELDS:
            near = difflib.get_close_matches(field, FIELDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigError(f"fields.{field} is no field of record format 1{hint}")
        self._places = {field: _placed(rule) for field, rule in rules.items() if rule is not None}
        self._own_names = FIELDS - rules.keys() - {"kind"}

    def apply(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Give the fields of format 1 that a line has; what is not there is left out.

        Raises:
            RecordError: a value that is to be scaled is no number.
        """
        taken = {name: value for name, value in line.items() if name in self._own_names}
        for field, place in self._places.items():
            value = _find(line, place)
            if value is not None and place.scale is not None:
                value = number(value, field)
                value = None if value is None else value * place.scale
            if value is not None:
                taken[field] = value
        return taken


def _placed(rule: FieldRule) -> _Place:
    return _Place(rule.source, tuple(rule.source.split(".")), None if rule.scale == 1 else rule.scale)


def _find(line: Mapping[str, Any], place: _Place) -> Any:
    if (value := line.get(place.name)) is not None:
        return value
    found: Any = line
    for step in place.steps:
        if isinstance(found, str):
            found = _unwrapped(found)
        if isinstance(found, Mapping):
            found = found.get(step)
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return found


def _unwrapped(value: str) -> Any:
    """Read JSON that an app put into a string; anything else holds nothing to step into."""
    try:
        return msgspec.json.decode(value.encode())
    except (ValueError, RecursionError):  # a surrogate that no UTF-8 holds is a ValueError too
        return None
