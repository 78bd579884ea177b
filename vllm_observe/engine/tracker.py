"""The engines behind one server over time: their latest state, restarts, stalls and staleness."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.engine.answers import AnswerWatch
from vllm_observe.engine.history import History, Where
from vllm_observe.engine.restarts import RestartWatch
from vllm_observe.engine.stalls import StallWatch
from vllm_observe.model import EngineKey, EngineSample, Family

__all__ = ["EngineTracker", "EngineView"]


#: Restarts whose times are remembered: a crash loop's of the time in which requests wait for their join.
_MOST_GAPS = 100


class EngineView(NamedTuple):
    """One engine as the latest good scrape shows it.

    ``previous`` is its sample before that one, of the same process and from less than the staleness
    earlier. ``stalled`` is ``None`` where the engine does not expose enough to judge it.
    """

    sample: EngineSample
    previous: EngineSample | None
    stalled: bool | None


class _Engine(NamedTuple):
    sample: EngineSample
    previous: EngineSample | None
    seen: float
    stall: StallWatch


class EngineTracker:
    """Follows the engines of one server from scrape to scrape.

    It is told of good scrapes only and asked at any time, from any thread: once the last good scrape
    is ``stale_after`` seconds old, all that it knew of the engines is absent. Durations are measured
    on the monotonic clock; the wall clock's times only serve to find samples.

    Attributes:
        stall_after: seconds with work and without progress, after which an engine is stalled.
        stale_after: seconds without a good scrape, after which nothing is known.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        stall_after: float,
        stale_after: float,
        keep: float = 900.0,
        max_samples: int = 20_000,
    ) -> None:
        self.stall_after = stall_after
        self.stale_after = stale_after
        self._clock = clock
        self._lock = threading.Lock()
        self._history = History(keep=keep, max_samples=max_samples)
        self._restarts = RestartWatch()
        self._answers = AnswerWatch()
        self._present: dict[EngineKey, _Engine] = {}
        self._missing: dict[EngineKey, _Engine] = {}
        self._good: float | None = None
        self._good_at = -math.inf  # the same on the wall clock
        self._restarted: float | None = None
        self._gaps: deque[tuple[float, float]] = deque(maxlen=_MOST_GAPS)

    def observe(self, samples: Collection[EngineSample], families: Iterable[Family], at: float) -> None:
        """Take a good scrape.

        Args:
            samples: the engines' samples, from :func:`~vllm_observe.engine.sampling.engine_samples`.
            families: the upgraded families that they were read from.
            at: when they were scraped, in seconds since the Unix epoch.
        """
        families = tuple(families)
        with self._lock:
            now = self._clock.monotonic()
            if self._restarts.observe(families):
                self._present, self._missing, self._answers = {}, {}, AnswerWatch()
                self._gaps.append((self._good_at, at))
                self._restarted = now
            before = self._missing | self._present
            self._present = {s.key: self._advance(before.pop(s.key, None), s, now) for s in samples}
            # An engine that is missing from a scrape or two goes on when it comes back.
            self._missing = {key: old for key, old in before.items() if now - old.seen < self.stale_after}
            self._answers.observe(samples, families)
            self._history.scraped(at, samples)
            self._good, self._good_at = now, at

    def told(self, sample: EngineSample) -> None:
        """Take what an engine told of itself in a log: it may explain requests, and says nothing of now.

        Of an engine that no scrape has shown it is dropped: the logs of several replicas, which name
        their engines alike, would be taken for one.
        """
        with self._lock:
            if sample.key in self._present or sample.key in self._missing:
                self._history.told(sample)

    def _advance(self, old: _Engine | None, sample: EngineSample, now: float) -> _Engine:
        stall = StallWatch() if old is None else old.stall
        stall.observe(sample, now)
        recent = old is not None and now - old.seen < self.stale_after
        return _Engine(sample, old.sample if old is not None and recent else None, now, stall)

    @property
    def restarts(self) -> int:
        """Restarts of the server's process seen so far, each once whatever the number of engines."""
        return self._restarts.count

    def restart_age(self) -> float | None:
        """Seconds since the latest restart was seen; ``None`` where none was."""
        restarted = self._restarted
        return None if restarted is None else max(0.0, self._clock.monotonic() - restarted)

    def restarted_around(self, when: float) -> bool:
        """Say whether a time of the wall clock lies between the last that was seen of a process and the next one."""
        with self._lock:
            return any(last < when <= first for last, first in self._gaps)

    def age(self) -> float | None:
        """Seconds since the last good scrape; ``None`` before the first."""
        good = self._good
        return None if good is None else max(0.0, self._clock.monotonic() - good)

    def fresh(self) -> bool:
        """Say whether the last good scrape is recent enough to speak for now."""
        age = self.age()
        return age is not None and age < self.stale_after

    def engines(self) -> list[EngineView]:
        """Return each engine of the latest good scrape; none where that is stale."""
        with self._lock:
            latest = self._present.values() if self.fresh() else ()
            return [EngineView(e.sample, e.previous, e.stall.stalled(self.stall_after)) for e in latest]

    def answers_without_tokens(self) -> bool | None:
        """Say whether the server answers requests while its engines make nothing.

        ``None`` where that is stale, or not exposed (``http_requests_total`` is there from 0.8 on).
        """
        return self._answers.without_tokens if self.fresh() else None

    def sample_before(self, where: Where, when: float) -> EngineSample | None:
        """Return the engine's newest sample at or before a time of the wall clock.

        ``None`` where the newest was stale by then, or where several engines are meant.
        """
        with self._lock:
            return self._history.before(where, when, max_age=self.stale_after)

    def samples_between(self, where: Where, start: float, end: float) -> list[EngineSample]:
        """Return the samples between two times of the wall clock, of every engine meant, oldest first."""
        with self._lock:
            return self._history.between(where, start, end)
