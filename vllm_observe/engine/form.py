"""The form of a page: all of it but the numbers, kept from one scrape for the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from vllm_observe.engine.lines import number
from vllm_observe.model import Family, Kind, Sample, Series

__all__ = ["Form", "FormFamily", "FormSample", "Rule"]

#: By how many characters a line can become longer: a number has 24 at most.
_LONGER = 32


class Rule(Enum):
    """Which numbers a sample can have."""

    ANY = "any"
    COUNT = "count"  # or a sum of what is counted: neither negative nor NaN
    QUANTILE = "quantile"  # not negative; NaN where there is nothing to take it of

    def allows(self, value: float) -> bool:
        """Say whether a sample can have this value."""
        return value >= 0 or self is Rule.ANY or (self is Rule.QUANTILE and math.isnan(value))


class FormSample(NamedTuple):
    """A sample without its value: the line that it stands in, its series, and what it can be."""

    line: int
    series: Series
    rule: Rule


class FormFamily(NamedTuple):
    """A family without its values."""

    name: str
    kind: Kind
    help: str
    unit: str
    samples: list[FormSample]


class _Slot(NamedTuple):
    """A sample's line: its text up to the value, and its place among all samples."""

    head: str
    place: int
    series: Series
    rule: Rule


class Form:
    """A page of plain samples, each a series, a space and a number, with the numbers it had last.

    Args:
        lines: the lines of the page.
        families: what the page holds, in its order.
        values: the values of all their samples.
    """

    def __init__(self, lines: list[str], families: Sequence[FormFamily], values: Sequence[float]) -> None:
        samples = [sample for family in families for sample in family.samples]
        self._lines = lines
        self._longest = sum(map(len, lines)) + len(lines) * _LONGER
        self._samples = [Sample(sample.series, value) for sample, value in zip(samples, values, strict=True)]
        self._slots: list[_Slot | None] = [None] * len(lines)
        for place, (line, series, rule) in enumerate(samples):
            self._slots[line] = _Slot(lines[line].rpartition(" ")[0], place, series, rule)
        self._families = []
        end = 0
        for family in families:
            start, end = end, end + len(family.samples)
            self._families.append((family, slice(start, end)))

    def fill(self, text: str) -> tuple[Family, ...] | None:
        """Fill the form from the next page; ``None`` where that differs in more than good numbers."""
        # A page that is far longer has other lines for sure, and is not even split.
        lines = text.split("\n") if len(text) <= self._longest else []
        if len(lines) != len(self._lines):
            return None
        samples = self._samples.copy()
        for line, before, slot in zip(lines, self._lines, self._slots, strict=True):
            if line == before:
                continue
            if slot is None:
                return None
            expected, place, series, rule = slot
            head, _, token = line.rpartition(" ")
            value = number(token) if head == expected else None
            if value is None or not (value >= 0 or rule.allows(value)):
                return None
            samples[place] = Sample(series, value)
        self._lines, self._samples = lines, samples
        return tuple(
            Family(family.name, family.kind, family.help, tuple(samples[part]), family.unit)
            for family, part in self._families
        )
