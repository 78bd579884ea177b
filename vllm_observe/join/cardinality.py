"""A bound on the values of labels that users fill: profiles, clients, models, adapters."""

from __future__ import annotations

__all__ = ["OTHER", "LabelCap"]

#: The label value of whatever is over the bound.
OTHER = "other"
_MAX_LENGTH = 64


class LabelCap:
    """Lets the first values keep their names for good, and calls all later ones ``other``.

    Nothing is ever evicted: a counter that changed its labels would look like one that was reset, and
    a flood of new names would push out those that matter.

    Attributes:
        overflowed: how often a value was called ``other`` for the bound.
    """

    def __init__(self, *, limit: int) -> None:
        self.overflowed = 0
        self._limit = limit
        self._known: set[str] = set()

    def label(self, value: str | None) -> str:
        """Return the label value that stands for this one; empty where it is not known."""
        name = _printable(value) if value else ""
        if not name or name in self._known:
            return name
        if len(self._known) >= self._limit:
            self.overflowed += 1
            return OTHER
        self._known.add(name)
        return name


def _printable(value: str) -> str:
    value = value[:_MAX_LENGTH]
    if value.isprintable():
        return value
    return "".join(character if character.isprintable() else "?" for character in value)
