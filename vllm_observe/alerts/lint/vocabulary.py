"""What rules can ask for: metrics with their labels and values, whoever tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_observe.model import Kind
from vllm_observe.signals import PREFIXES

__all__ = ["PARTS", "Metric", "Vocabulary"]

#: What a histogram's names end with.
PARTS = ("bucket", "sum", "count")
_VLLM = "vllm:"
#: What begins with vLLM's own name and an underscore is nobody's, unless something on the way rewrites colons.
_REWRITTEN = "vllm_"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What series of one name are like.

    Attributes:
        name: the name as selectors write it, such as ``vllm:time_to_first_token_seconds_bucket``.
        family: today's name of its family.
        part: of a histogram or summary, one of ``PARTS``; empty for its bare name and for other types.
        unit: of the family's values; empty where there is none.
        labels: those that its series have; ``None`` where that is not known.
        values: for a label the values that are known.
        closed: the labels that have no other values.
    """

    name: str
    family: str
    kind: Kind
    part: str = ""
    unit: str = ""
    labels: frozenset[str] | None = None
    values: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    closed: frozenset[str] = frozenset()

    @property
    def counts(self) -> bool:
        """Whether it only grows, until a restart."""
        return self.kind is Kind.COUNTER or self.part in PARTS

    @property
    def bare(self) -> bool:
        """Whether it is a histogram's own name, which has no series."""
        return self.kind is Kind.HISTOGRAM and not self.part


@dataclass(frozen=True)
class Vocabulary:
    """All that can be asked for.

    ``pages`` says whether it was seen on pages, and not only read in tables.
    """

    metrics: Mapping[str, Metric]
    pages: bool

    def get(self, name: str) -> Metric | None:
        """Return the metric of this name; in a table a wrapper's prefix counts as vLLM's."""
        found = self.metrics.get(name)
        if found is None and not self.pages:
            prefix = next(filter(name.startswith, PREFIXES), _REWRITTEN)
            found = self.metrics.get(_VLLM + name.removeprefix(prefix)) if prefix != _REWRITTEN else None
        return found
