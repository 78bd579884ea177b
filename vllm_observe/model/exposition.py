"""What a page of metrics holds."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

__all__ = ["Exemplar", "Family", "Kind", "Sample", "Series"]


class Kind(str, Enum):
    """The type of a metric family, as OpenMetrics names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"
    STATESET = "stateset"
    GAUGEHISTOGRAM = "gaugehistogram"
    UNKNOWN = "unknown"


class Series:
    """A sample's name and labels. A parser hands out one object for a series in all its scrapes."""

    __slots__ = ("labels", "name", "text")

    def __init__(self, name: str, labels: tuple[tuple[str, str], ...] = ()) -> None:
        self.name = name
        self.labels = labels
        #: The series as every text format writes it: ``name{label="value"}``.
        self.text = name if not labels else name + "{" + ",".join(map(_pair, labels)) + "}"

    def label(self, name: str) -> str | None:
        """The value of a label, or ``None`` where the series has no such label."""
        for key, value in self.labels:
            if key == name:
                return value
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Series):
            return NotImplemented
        return self.name == other.name and sorted(self.labels) == sorted(other.labels)

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.labels)))

    def __repr__(self) -> str:
        return f"Series({self.text})"


def _pair(label: tuple[str, str]) -> str:
    name, value = label
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{value}"'


class Exemplar(NamedTuple):
    """One observation behind a bucket or a counter."""

    labels: tuple[tuple[str, str], ...]
    value: float
    timestamp: float | None = None


class Sample(NamedTuple):
    """One value of one series."""

    series: Series
    value: float
    exemplar: Exemplar | None = None


class Family(NamedTuple):
    """A metric family.

    ``name`` is the name that its samples begin with, a counter's ``_total`` included; a renderer
    for OpenMetrics takes that suffix off where the format wants it.
    """

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample]
    unit: str = ""
