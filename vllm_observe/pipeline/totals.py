"""Totals that the parts keep themselves, by the counter of ours that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from vllm_observe.serve.instruments import Instruments

__all__ = ["Totals", "by", "show"]

#: By a counter's name and its labels.
Totals = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]

_Label = TypeVar("_Label", bound=str)


def by(name: str, label: str, totals: Mapping[_Label, float]) -> Totals:
    """Name the totals of one counter by the values of its one label."""
    return {(name, ((label, value),)): total for value, total in totals.items()}


def show(totals: Totals, instruments: Instruments) -> None:
    """Bring the counters up to what was totalled so far."""
    for (name, labels), total in totals.items():
        instruments.counter(name, **dict(labels)).catch_up(total)
