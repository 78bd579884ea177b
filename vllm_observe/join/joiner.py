"""The joiner: holds the parts of requests until each request is whole, then hands it out, once.

A part waits under its own id. Which client's request an engine part belongs to is settled when that
request closes, since only then it is known which ids clients have sent. Two questions decide when:

- Is it whole? With a part of each side it is, a short while after the last part came: the same
  request may be in the middleware's log and in the app's, and have several answers.
- Can it become whole? A side that no record of has come for some minutes is not waited for: a server
  whose engine writes no records has every request closed as soon as its log tells of it.
  Who is silent is only known once somebody has spoken: engine parts, which are written first, wait
  for their edge record at the start and after a pause.

Otherwise the window ends the wait. What comes later is known for some windows as a part of what was
handed out, and is not counted again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.join.attempts import Attempt, arrange
from vllm_observe.join.groups import Group, Shelf
from vllm_observe.join.identity import candidates, indexed, key
from vllm_observe.join.merge import merge
from vllm_observe.join.surroundings import EngineHistory, Surroundings, surroundings
from vllm_observe.model import EdgeRecord, EngineRecord, Evidence, JoinedRequest

__all__ = ["Classify", "JoinStats", "Joiner"]

#: Seconds without another part after which a request that is whole closes. Two logs are read in turn,
#: and a logger may flush once a second.
SETTLE_S = 2.0
#: Seconds for which a side that told of a request is expected to tell of the next.
EXPECT_S = 600.0
#: Records that one id may hold at once: one that everybody sends neither waits nor fills the memory.
MAX_RECORDS = 128
#: Attempts of one id that are remembered for parts that come late or twice.
KEPT_ATTEMPTS = 8
#: How long a closed id is remembered for them: so many windows, and so many seconds at the least. An id
#: that comes again after that is no retry.
REMEMBER_WINDOWS = 10
REMEMBER_S = 600.0

#: Names the cause of a slow or failed request, by the engine's samples around it.
Classify = Callable[[JoinedRequest, Surroundings], Evidence | None]


@dataclass(slots=True)
class JoinStats:
    """What happened since the start."""

    early: int = 0  # requests closed before their time, because a bound was reached


class Joiner:
    """Joins edge and engine records into requests. For one thread.

    Args:
        clock: measures how long a request's parts have been waited for.
        window: the most seconds from a request's first part to its closing.
        max_pending: the most ids to hold open, and the most to remember for late parts.
        samples: finds the engine's state around a request.
        classify: names the cause of a slow or failed one.

    Attributes:
        window: as above; may be replaced while running.
        stats: what happened since the start.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        window: float,
        max_pending: int,
        samples: EngineHistory,
        classify: Classify,
    ) -> None:
        self.window = window
        self.stats = JoinStats()
        self._clock = clock
        self._samples = samples
        self._classify = classify
        self._open = Shelf(max_pending)
        self._closed = Shelf(max_pending)
        self._claims: dict[str, dict[str, None]] = {}  # what an engine's id may stand for -> its key
        self._settling: dict[str, None] = {}  # open ids to look at once they are quiet, in that order
        self._last: dict[type, float] = {}  # when each side last told of a request
        self._began = -math.inf  # when either side began to tell of some, after a pause of both
        self._ready: list[JoinedRequest] = []

    @property
    def pending(self) -> int:
        """Ids with records that were not handed out yet."""
        return len(self._open.groups)

    def add(self, record: EdgeRecord | EngineRecord) -> None:
        """Take a record. Where that reaches a bound, the request that waits longest closes early."""
        now = self._clock.monotonic()
        if now - max(self._last.values(), default=-math.inf) >= EXPECT_S:
            self._began = now
        self._last[type(record)] = now
        for old in self._closed.aged(now, max(REMEMBER_WINDOWS * self.window, REMEMBER_S)):
            self._forget(old)
        name = key(record.request_id)
        known = self._find(name)
        if known is not None and record in known:
            return
        group = self._reopen(name, record, now)
        if isinstance(record, EdgeRecord):
            group.edges.append(record)
        else:
            group.engines.append(record)
        group.heard = now
        self._settling.pop(name, None)
        self._settling[name] = None
        self._open.grew(1)
        if len(group.edges) + len(group.engines) >= MAX_RECORDS:
            self._close_early(name)
        while self._open.overfull:
            self._close_early(next(iter(self._open.groups)))

    def close_due(self, now: float, most: int | None = None) -> list[JoinedRequest]:
        """Hand out the requests that are whole by now, or have waited for the whole window.

        Args:
            now: the monotonic clock's time.
            most: ids of either kind to look at; the others come with the next call.
        """
        for name in self._settled(now, most):
            self._close_if_whole(name, now)
        for name in self._open.aged(now, self.window)[:most]:
            group = self._open.groups.get(name)
            # What an open request's id stands for goes with it when it closes.
            if group is not None and (group.has_edge or self._owner(group) not in self._open.groups):
                self._close(name)
        return self._take_ready()

    def drain(self, most: int | None = None) -> list[JoinedRequest]:
        """Hand out requests that still wait, at the end of the process.

        Args:
            most: ids to close at most, those first that have waited the longest; all without it.
        """
        for name in list(islice(self._open.groups, most)):
            if name in self._open.groups:  # closing one may take another along
                self._close(name)
        return self._take_ready()

    def _take_ready(self) -> list[JoinedRequest]:
        ready, self._ready = self._ready, []
        return ready

    def _find(self, name: str) -> Group | None:
        return self._open.groups.get(name) or self._closed.groups.get(name)

    def _reopen(self, name: str, record: EdgeRecord | EngineRecord, now: float) -> Group:
        """Return the open group of a record's id: one that is open, that was closed, or a new one."""
        if name in self._open.groups:
            return self._open.groups[name]
        group = self._closed.take(name) if name in self._closed.groups else Group(record.request_id)
        if isinstance(record, EngineRecord) and not group.candidates:
            group.candidates = tuple(other for other in candidates(record.request_id) if other != name)
            group.indexed = indexed(record.request_id)
            for other in group.candidates:
                self._claims.setdefault(other, {})[name] = None
        self._open.put(name, group, now)
        return group

    def _settled(self, now: float, most: int | None) -> list[str]:
        """Take off the ids that have been quiet for long enough since they were last looked at."""
        open_groups = self._open.groups
        quiet = takewhile(lambda name: now - open_groups[name].heard >= SETTLE_S, self._settling)
        settled = list(islice(quiet, most))
        for name in settled:
            del self._settling[name]
        return settled

    def _close_if_whole(self, name: str, now: float) -> None:
        """Close the request of an id that has settled, where nothing more is expected of it."""
        group = self._open.groups.get(name)
        if group is None:
            return
        if not group.has_edge:
            owner = self._owner(group)
            if owner not in self._open.groups:
                if owner is not None or not self._expects_edge(now):
                    self._close(name)
                return
            name, group = owner, self._open.groups[owner]
        parts = [part for _, part in self._claimants(name)]
        quiet = all(now - part.heard >= SETTLE_S for part in (group, *parts))
        if quiet and (group.engines or parts or not self._expects(EngineRecord, now)):
            self._close(name)

    def _expects(self, side: type, now: float) -> bool:
        return side in self._last and now - self._last[side] < EXPECT_S

    def _expects_edge(self, now: float) -> bool:
        return self._expects(EdgeRecord, now) or now - self._began < self.window

    def _owner(self, group: Group) -> str | None:
        """Find the client's id that an engine's id stands for, among those that are known.

        Of several the one that lacks just a prompt's index; else the one whose time fits, and then the
        longest, with the least cut off.
        """
        known = [
            (name, found)
            for name in group.candidates
            if (found := self._find(name)) is not None and found.has_edge
        ]
        if len(known) > 1:
            return min(known, key=lambda one: (one[0] != group.indexed, one[1].misfit(group)))[0]
        return known[0][0] if known else None

    def _claimants(self, name: str) -> Iterator[tuple[str, Group]]:
        """List the groups of engine parts that belong to a client's id."""
        for other in self._claims.get(name, ()):
            group = self._find(other)
            if group is not None and not group.has_edge and self._owner(group) == name:
                yield other, group

    def _close_early(self, name: str) -> None:
        self.stats.early += 1
        self._close(name)

    def _close(self, name: str) -> None:
        group = self._open.groups[name]
        owner = None if group.has_edge else self._owner(group)
        if owner is not None:
            self._hand_over(name, owner)
            return
        if group.has_edge:
            for other, _ in list(self._claimants(name)):
                self._move(other, group)
        self._open.take(name)
        self._settling.pop(name, None)
        attempts = arrange(group.told, group.edges, group.engines)
        for attempt in attempts:
            self._tell(group, attempt)
        group.edges, group.engines, group.told = [], [], attempts[-KEPT_ATTEMPTS:]
        self._closed.put(name, group, self._clock.monotonic())
        while self._closed.overfull:
            self._forget(next(iter(self._closed.groups)))

    def _hand_over(self, name: str, owner: str) -> None:
        """Give an engine's id to the client's id that it stands for; at once where that had closed."""
        was_closed = owner in self._closed.groups
        if was_closed:
            self._open.put(owner, self._closed.take(owner), self._clock.monotonic())
        self._move(name, self._open.groups[owner])
        if was_closed:
            self._close(owner)

    def _move(self, name: str, to: Group) -> None:
        """Move all that a group holds into an open one."""
        group = (self._open if name in self._open.groups else self._closed).take(name)
        self._settling.pop(name, None)
        self._disclaim(name, group)
        to.engines += group.engines
        for attempt in group.told:
            attempt.number = 0  # it was counted among another id's
        to.told += group.told
        self._open.grew(group.size)

    def _forget(self, name: str) -> None:
        self._disclaim(name, self._closed.take(name))

    def _disclaim(self, name: str, group: Group) -> None:
        for other in group.candidates:
            claimants = self._claims[other]
            del claimants[name]
            if not claimants:
                del self._claims[other]

    def _tell(self, group: Group, attempt: Attempt) -> None:
        """Make a request of an attempt, once, with the engine around it and its cause."""
        if not attempt.number:
            group.attempts += 1
            attempt.number = group.attempts
        if attempt.told:
            return
        attempt.told = True
        request = merge(group.request_id, attempt.number, attempt)
        around = surroundings(self._samples, request)
        request = msgspec.structs.replace(
            request,
            before_arrival=around.before_arrival,
            before_end=around.last,
            evidence=self._classify(request, around),
        )
        self._ready.append(request)
