"""What is known before a rule is looked at: the metrics, and what recording rules make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vllm_observe.alerts.lint.expression import Expression
from vllm_observe.alerts.lint.ranges import ALL, Range
from vllm_observe.alerts.lint.tables import described
from vllm_observe.alerts.lint.vocabulary import Metric, Vocabulary

__all__ = ["Context", "LabelSet", "Quantity", "Recorded"]


@dataclass(frozen=True)
class LabelSet:
    """The labels of an expression's series.

    Attributes:
        certain: those that each of them has.
        pinned: those of them that a matcher holds at one value.
        names: with ``closed``, the only ones that they can have; else those that they cannot have.
    """

    certain: frozenset[str] = frozenset()
    pinned: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    closed: bool = False

    def possible(self, label: str) -> bool:
        """Whether a series can have this label."""
        return (label in self.names) is self.closed

    def only(self, labels: frozenset[str]) -> LabelSet:
        """Leave no others than these."""
        names = frozenset(filter(self.possible, labels))
        return LabelSet(self.certain & labels, self.pinned & labels, names, closed=True)

    def without(self, labels: frozenset[str]) -> LabelSet:
        """Take these away."""
        names = self.names - labels if self.closed else self.names | labels
        return LabelSet(self.certain - labels, self.pinned - labels, names, self.closed)

    def adding(self, labels: frozenset[str]) -> LabelSet:
        """Let series have these too."""
        return replace(self, names=self.names | labels if self.closed else self.names - labels)

    def either(self, other: LabelSet) -> LabelSet:
        """Return what holds for series of both."""
        certain, pinned = self.certain & other.certain, self.pinned & other.pinned
        if self.closed and other.closed:
            return LabelSet(certain, pinned, self.names | other.names, closed=True)
        if self.closed or other.closed:
            closed, open_ = (self, other) if self.closed else (other, self)
            return LabelSet(certain, pinned, open_.names - closed.names)
        return LabelSet(certain, pinned, self.names & other.names)


@dataclass(frozen=True)
class Quantity:
    """What is measured.

    Attributes:
        unit: its name; ``x/s`` for a rate.
        scale: what it was multiplied with: 100 for a ratio in percent, 1000 for seconds in milliseconds.
        share: whether it is a part of a whole, so between 0 and 1.
        families: the metrics that it comes from.
    """

    unit: str
    scale: float = 1.0
    share: bool = False
    families: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Recorded:
    """What a recording rule gives: also the window in seconds over which it is taken, and all its values.

    ``made_of`` are the expressions of all rules that record under the name.
    """

    labels: LabelSet
    quantity: Quantity | None
    window: float
    values: Range = ALL
    made_of: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Context:
    """What holds for all rules.

    Attributes:
        vocabulary: the metrics that there are.
        recordings: what the recording rules of all files give, by name.
        scrape_interval: seconds between two scrapes of Prometheus.
    """

    vocabulary: Vocabulary
    recordings: Mapping[str, Recorded] = field(default_factory=dict)
    scrape_interval: float = 15.0

    def metric(self, name: str) -> Metric | None:
        """Return what is known of a metric, one that does not exist here, such as a former name, included.

        A rule with two faults is told both: the old name, and 90 for 0.9.
        """
        return self.vocabulary.get(name) or described(name)
