"""Records that wait together under one id, and the shelves that hold them within a bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile

from vllm_observe.join.attempts import Attempt, misfit
from vllm_observe.model import EdgeRecord, EngineRecord

__all__ = ["Group", "Shelf"]

#: Records that the ids on a shelf may have on average.
_MEAN_RECORDS = 4


@dataclass(slots=True, eq=False)
class Group:
    """The records of one id, and the attempts that were handed out of it."""

    request_id: str
    candidates: tuple[str, ...] = ()  # of an engine's id: what else it may stand for
    indexed: str | None = None  # the one of them that lacks just the index of a prompt
    since: float = 0.0  # when it was put on its shelf
    heard: float = 0.0  # when its last record came
    edges: list[EdgeRecord] = field(default_factory=list)
    engines: list[EngineRecord] = field(default_factory=list)
    told: list[Attempt] = field(default_factory=list)
    attempts: int = 0

    @property
    def size(self) -> int:
        """How many records it holds, those of the attempts among them."""
        return len(self.edges) + len(self.engines) + sum(attempt.size for attempt in self.told)

    def __contains__(self, record: EdgeRecord | EngineRecord) -> bool:
        if isinstance(record, EdgeRecord):
            return record in self.edges or any(record in attempt.edges for attempt in self.told)
        return record in self.engines or any(record in attempt.engines for attempt in self.told)

    @property
    def has_edge(self) -> bool:
        """Whether a client's record is among them: only then the id is known to be a client's."""
        return bool(self.edges) or any(attempt.edges for attempt in self.told)

    def misfit(self, other: Group) -> float:
        """Seconds of another group's engine parts that no edge record here accounts for."""
        edges = [*self.edges, *(edge for attempt in self.told for edge in attempt.edges)]
        return sum(min(misfit(part, edge) for edge in edges) for part in other.engines)


class Shelf:
    """Groups by key, the first put first, with a bound on how many and on their records."""

    def __init__(self, most: int) -> None:
        self.groups: dict[str, Group] = {}
        self._most = most
        self._records = 0

    @property
    def overfull(self) -> bool:
        """Whether it holds more than it may."""
        return len(self.groups) > self._most or self._records > _MEAN_RECORDS * self._most

    def put(self, name: str, group: Group, now: float) -> None:
        """Put a group last."""
        group.since = now
        self.groups[name] = group
        self._records += group.size

    def take(self, name: str) -> Group:
        """Take a group off."""
        group = self.groups.pop(name)
        self._records -= group.size
        return group

    def aged(self, now: float, seconds: float) -> list[str]:
        """List the groups that have been here for so many seconds, the first put first."""
        return list(takewhile(lambda name: now - self.groups[name].since >= seconds, self.groups))

    def grew(self, records: int) -> None:
        """Take note of records that a group on it has got."""
        self._records += records
