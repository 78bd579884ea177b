"""Records that wait together under one id, and the shelves that hold them within a bound."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm_observe.join.attempts import Attempt, misfit
from vllm_observe.join.skew import shifted
from vllm_observe.model import EdgeRecord, EngineRecord

__all__ = ["Group", "Shelf"]

#: Records that each id on a shelf may have on average.
_MEAN_RECORDS = 4


@dataclass(slots=True, eq=False)
class Group:
    """The open records of one id, and the attempts that were made of earlier ones."""

    request_id: str
    candidates: tuple[str, ...] = ()  # of an engine's id: what else it may stand for
    indexed: str | None = None  # the one of them that lacks just the index of a prompt
    since: float = 0.0  # when it was put on its shelf
    heard: float = 0.0  # when its last record came
    edges: list[EdgeRecord] = field(default_factory=list)
    engines: list[EngineRecord] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)  # those that closed, the latest of them
    last_number: int = 0  # of its attempts

    @property
    def size(self) -> int:
        """How many records it holds, those of the attempts among them."""
        return len(self.edges) + len(self.engines) + sum([attempt.size for attempt in self.attempts])

    def __contains__(self, record: EdgeRecord | EngineRecord) -> bool:
        if isinstance(record, EdgeRecord):
            return record in self.edges or any(
                _is(record, edge) for attempt in self.attempts for edge in attempt.edges
            )
        return record in self.engines or any(record in attempt.engines for attempt in self.attempts)

    @property
    def has_edge(self) -> bool:
        """Whether a client's record is among them: only then the id is known to be a client's."""
        return bool(self.edges) or any(attempt.edges for attempt in self.attempts)

    @property
    def has_engine(self) -> bool:
        """Whether an engine's record is among them."""
        return bool(self.engines) or any(attempt.engines for attempt in self.attempts)

    def misfit(self, other: Group) -> float:
        """Seconds of another group's engine parts that lie outside of every edge record here."""
        edges = [*self.edges, *(edge for attempt in self.attempts for edge in attempt.edges)]
        return sum(min(misfit(part, edge) for edge in edges) for part in other.engines)


def _is(read: EdgeRecord, kept: EdgeRecord) -> bool:
    """Say whether a record as it was read is one that is kept, whose time may have been corrected."""
    return read == kept if kept.skew_s is None else shifted(read, kept.skew_s) == kept


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
        """List the groups that have been here for that many seconds, the first put first."""
        aged = []
        for name, group in self.groups.items():
            if now - group.since < seconds:
                break
            aged.append(name)
        return aged

    def grew(self, records: int) -> None:
        """Count records that were added to a group on it."""
        self._records += records
