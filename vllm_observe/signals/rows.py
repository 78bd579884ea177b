"""What a row of the tables says, and the short words in which the rows are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from vllm_observe.model import Kind

__all__ = [
    "ENGINE",
    "Combine",
    "Former",
    "OwnMetric",
    "Signal",
    "counter",
    "gauge",
    "histogram",
    "needs",
    "summary",
]

#: The labels of nearly everything an engine says: the served model and the data-parallel rank.
#: The oldest engine (V0, up to 0.10.2) has no ``engine`` label.
ENGINE = ("model_name", "engine")


class Combine(str, Enum):
    """How several series that differ only by ``pid`` become one."""

    SUM = "sum"
    MAX = "max"

    @classmethod
    def of(cls, kind: Kind) -> Combine:
        """Return the way that is right for every metric of this type."""
        # With several API processes each counts the requests that it served, so counts add up.
        # But each also exposes every gauge, while an engine reports to one of them and the others
        # keep their first 0 (vllm#28792): a mean and the last one read would be wrong, and so would
        # a sum where it is a ratio, a time or an info.
        return cls.SUM if kind in {Kind.COUNTER, Kind.HISTOGRAM, Kind.SUMMARY} else cls.MAX


@dataclass(frozen=True)
class Former:
    """An older name of a signal and the releases that expose it unasked, both ends included."""

    name: str
    first: str
    last: str


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One thing that vLLM tells about itself.

    ``key`` is our short name for it, ``name`` today's family name as exposed (a counter's
    ``_total`` included), ``unit`` that of the values. ``first`` and ``last`` are the releases that
    expose today's name unasked.
    """

    key: str
    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    first: str
    last: str | None = None  # None: the newest known release still exposes it
    former: tuple[Former, ...] = ()  # newest first; the first that is exposed wins
    gate: str = ""  # the option or feature without which vLLM does not expose it
    more_labels: bool = False  # it has others too, which change from release to release

    @property
    def combine(self) -> Combine:
        """How several series that differ only by ``pid`` become one."""
        return Combine.of(self.kind)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it ever had, in the order in which they are believed."""
        return (self.name, *(former.name for former in self.former))


@dataclass(frozen=True, kw_only=True)
class OwnMetric:
    """One metric of ours, ``vllm_observe_`` and a counter's ``_total`` included in ``name``.

    ``known`` holds, for a label, the values that exist from the start.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    unit: str = ""
    buckets: tuple[float, ...] = ()
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


def _signal(
    key: str,
    name: str,
    unit: str,
    first: str,
    meaning: str,
    *,
    kind: Kind,
    by: tuple[str, ...] = (),
    labels: tuple[str, ...] = ENGINE,
    last: str | None = None,
    former: tuple[Former, ...] = (),
    more_labels: bool = False,
) -> Signal:
    """Write a signal as a row; ``by`` are the labels that it has beside ``labels``."""
    return Signal(
        key=key,
        name=name,
        kind=kind,
        unit=unit,
        labels=labels + by,
        help=meaning,
        first=first,
        last=last,
        former=former,
        more_labels=more_labels,
    )


counter = partial(_signal, kind=Kind.COUNTER)
gauge = partial(_signal, kind=Kind.GAUGE)
histogram = partial(_signal, kind=Kind.HISTOGRAM)
summary = partial(_signal, kind=Kind.SUMMARY)


def needs(gate: str, *signals: Signal) -> tuple[Signal, ...]:
    """Mark signals as exposed only with an option or a feature."""
    return tuple(replace(signal, gate=gate) for signal in signals)
