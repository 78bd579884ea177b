"""The joiner: holds the parts of requests until each request is whole, then hands it out.

A part waits under its own id. Which client's request an engine part belongs to is settled when that
request closes, since only then it is known which ids clients have sent. Two questions decide when:

- Is it whole? With a part of each side it is, a short while after the last part came: the same
  request may be in the middleware's log and in the app's, and have several answers.
- Can it become whole? A side from which no record has come for some minutes is not waited for: where the
  engine writes no records, every request closes soon after its line in the request log.
  Which side is silent is only known once the other has spoken: engine parts, which are written first,
  wait for their edge record at the start and after a pause.

Otherwise the window ends the wait. What was handed out is known for some windows: a part that comes
later has its request handed out again, as one that amends the first, and a line that is read again is
nothing new. A request of which only the arrival is known is never handed out: how it ended is unknown.
"""

from __future__ import annotations

import math
from itertools import islice, takewhile

from vllm_observe.clock import Clock
from vllm_observe.join.attempts import Attempt, arrange
from vllm_observe.join.claims import Claims
from vllm_observe.join.coverage import accounted
from vllm_observe.join.groups import Group, Shelf
from vllm_observe.join.identity import uid
from vllm_observe.join.outbox import Classify, JoinStats, Outbox
from vllm_observe.join.skew import Skews
from vllm_observe.join.surroundings import EngineHistory
from vllm_observe.logs import Faults
from vllm_observe.model import EdgeRecord, EngineRecord, JoinedRequest

__all__ = ["Joiner"]

#: Seconds without another part after which a request that is whole closes. Two logs are read in turn,
#: and a logger may flush once a second.
SETTLE_S = 2.0
#: Seconds after a side's last record for which another is expected of it.
EXPECT_S = 600.0
#: Records that one id may hold at once: an id that everybody sends neither waits nor fills the memory.
MAX_RECORDS = 128
#: Attempts of one id that are remembered for parts that come late or twice.
KEPT_ATTEMPTS = 8
#: How long a closed id is remembered for them: so many windows, and so many seconds at the least. An id
#: that comes again after that is no retry.
REMEMBER_WINDOWS = 10
REMEMBER_S = 600.0


class Joiner:
    """Joins edge and engine records into requests. For one thread.

    Args:
        clock: measures how long a request's parts have been waited for.
        window: the most seconds from a request's first part to its closing.
        max_pending: the most ids to hold open, and the most to remember for late parts.
        samples: finds the engine's state around a request.
        classify: names the cause of a slow or failed one.
        faults: of ours that no request was lost by.

    Attributes:
        window: as above; may be replaced while running.
        stats: what happened since the start.
        skews: how far the clocks of the sources are apart.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        window: float,
        max_pending: int,
        samples: EngineHistory,
        classify: Classify,
        faults: Faults,
    ) -> None:
        self.window = window
        self.stats = JoinStats()
        self.skews = Skews()
        self._clock = clock
        self._open = Shelf(max_pending)
        self._closed = Shelf(max_pending)
        self._claims = Claims(self._find)
        self._settling: dict[str, None] = {}  # open ids to look at once they are quiet, in that order
        self._last: dict[type, float] = {}  # when the last record of each side came
        self._heard = -math.inf  # when that of either came
        self._began = -math.inf  # when the first record came after a pause of both sides
        self._outbox = Outbox(samples=samples, classify=classify, stats=self.stats, faults=faults)

    @property
    def pending(self) -> int:
        """Ids with records that were not handed out yet."""
        return len(self._open.groups)

    def add(self, record: EdgeRecord | EngineRecord) -> None:
        """Take a record. Where that reaches a bound, the request that waits longest closes early."""
        now = self._clock.monotonic()
        if now - self._heard >= EXPECT_S:
            self._began = now
        self._heard = self._last[type(record)] = now
        for old in self._closed.aged(now, max(REMEMBER_WINDOWS * self.window, REMEMBER_S)):
            self._forget(old)
        name = record.request_id
        known = self._find(name)
        if known is not None and record in known:
            return
        group = self._reopen(name, record, now)
        if isinstance(record, EdgeRecord):
            group.edges.append(record)
            self._claims.know(name)
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

    def waiting(self) -> list[EdgeRecord | EngineRecord]:
        """Return the records that wait in open groups, as they were read."""
        records: list[EdgeRecord | EngineRecord] = []
        for group in self._open.groups.values():
            records += group.edges
            records += group.engines
        return records

    def remember(self, request: JoinedRequest) -> None:
        """Remember a request that an earlier joiner handed out, for parts that come late.

        To be called before the first record, with the oldest first.
        """
        name = request.request_id
        group = self._closed.take(name) if name in self._closed.groups else Group(request.request_id)
        if request.edges:
            self._claims.know(name)
        else:
            self._claims.register(name, group)
        attempt = Attempt(
            edges=[*request.edges],
            engines=[*request.engines],
            number=request.attempt,
            uid=request.uid or uid(request),
            claimed=accounted(request),
        )
        attempt.handed_out = attempt.size
        group.last_number = max(group.last_number, request.attempt)
        group.attempts = [*group.attempts, attempt][-KEPT_ATTEMPTS:]
        self._closed.put(name, group, self._clock.monotonic())
        while self._closed.overfull:
            self._forget(next(iter(self._closed.groups)))

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
            # Engine parts of a client's id that is open close together with it.
            if group is not None and (group.has_edge or self._claims.owner(group) not in self._open.groups):
                self._close(name)
        return self._outbox.take()

    def drain(self, most: int | None = None) -> list[JoinedRequest]:
        """Hand out requests that still wait, at the end of the process.

        Args:
            most: ids to close at most, those first that have waited the longest; all without it.
        """
        for name in list(islice(self._open.groups, most)):
            if name in self._open.groups:  # closing one may take another along
                self._close(name)
        return self._outbox.take()

    def _find(self, name: str) -> Group | None:
        return self._open.groups.get(name) or self._closed.groups.get(name)

    def _reopen(self, name: str, record: EdgeRecord | EngineRecord, now: float) -> Group:
        """Return the open group of a record's id: one that is open, that was closed, or a new one."""
        if name in self._open.groups:
            return self._open.groups[name]
        group = self._closed.take(name) if name in self._closed.groups else Group(record.request_id)
        if isinstance(record, EngineRecord):
            self._claims.register(name, group)
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
            owner = self._claims.owner(group)
            if owner not in self._open.groups:
                if owner is not None or not self._expects_edge(now):
                    self._close(name)
                return
            name, group = owner, self._open.groups[owner]
        if now - group.heard < SETTLE_S:
            return
        has_engine = group.has_engine
        for _, part in self._claims.of(name):
            if now - part.heard < SETTLE_S:
                return
            has_engine = True
        if has_engine or not self._expects(EngineRecord, now):
            self._close(name)

    def _expects(self, side: type, now: float) -> bool:
        return side in self._last and now - self._last[side] < EXPECT_S

    def _expects_edge(self, now: float) -> bool:
        return self._expects(EdgeRecord, now) or now - self._began < self.window

    def _close_early(self, name: str) -> None:
        self.stats.early += 1
        self._close(name)

    def _close(self, name: str) -> None:
        group = self._open.groups[name]
        owner = None if group.has_edge else self._claims.owner(group)
        if owner is not None:
            self._hand_over(name, owner)
            return
        if group.has_edge:
            for other, _ in list(self._claims.of(name)):
                self._move(other, group)
        self._open.take(name)
        self._settling.pop(name, None)
        if not group.attempts:
            self.skews.compare(group.edges, group.engines)
        engines = group.engines or [part for attempt in group.attempts for part in attempt.engines]
        edges, apart = self.skews.on_engine_time(group.edges, engines)
        attempts = arrange(group.attempts, edges, group.engines, apart=apart)
        for attempt in attempts:
            self._hand_out(group, attempt)
        group.edges, group.engines, group.attempts = [], [], attempts[-KEPT_ATTEMPTS:]
        self._closed.put(name, group, self._clock.monotonic())
        while self._closed.overfull:
            self._forget(next(iter(self._closed.groups)))

    def _hand_over(self, name: str, owner: str) -> None:
        """Move an engine's id into the client's id that it stands for, and close that again if it had closed."""
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
        self._claims.forget(name, group)
        to.engines += group.engines
        for attempt in group.attempts:
            attempt.number = 0  # it was counted among another id's
        to.attempts += group.attempts
        self._open.grew(group.size)

    def _forget(self, name: str) -> None:
        self._claims.forget(name, self._closed.take(name))

    def _hand_out(self, group: Group, attempt: Attempt) -> None:
        """Make a request of an attempt that holds news.

        An attempt that has only arrived is kept for the records of its end, and expires without them.
        """
        if not attempt.has_ended:
            return
        if not attempt.number:
            group.last_number += 1
            attempt.number = group.last_number
        if attempt.is_news:
            self._outbox.put(group.request_id, attempt)
