"""Records by hand, an engine history that is a list, and a joiner with its clock."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_observe.clock import ManualClock
from vllm_observe.join.joiner import Joiner
from vllm_observe.join.surroundings import Surroundings, Where
from vllm_observe.logs import EventLog, Faults
from vllm_observe.model import (
    EdgeRecord,
    EngineKey,
    EngineRecord,
    EngineSample,
    Evidence,
    JoinedRequest,
    Outcome,
)

#: A time whose quarter seconds are exact, and that is no whole second (which would mean a coarse clock).
T = 1_790_000_000.25
WINDOW = 60.0
STALE = 15.0
KEY = EngineKey("tiny", "0")


def edge(request_id: str = "abc", *, start: float = 0.0, took: float | None = 4.0, **values) -> EdgeRecord:
    """An edge record that begins so many seconds after T."""
    values.setdefault("outcome", Outcome.OK)
    return EdgeRecord(request_id=request_id, ts=T + start + (took or 0.0), duration_s=took, **values)


def engine(
    request_id: str = "chatcmpl-abc", *, start: float = 0.0, took: float | None = 4.0, **values
) -> EngineRecord:
    """An engine record that begins so many seconds after T."""
    values.setdefault("finish_reason", "stop")
    return EngineRecord(request_id=request_id, ts=T + start + (took or 0.0), e2e_s=took, **values)


def arrival(request_id: str = "chatcmpl-abc", *, at: float = 0.0, **values) -> EngineRecord:
    """What a log says of a request that arrived so many seconds after T."""
    return EngineRecord(request_id=request_id, ts=T + at, **values)


def sample(at: float, *, key: EngineKey = KEY, **values: float | None) -> EngineSample:
    """An engine's sample so many seconds after T."""
    return EngineSample(at=T + at, key=key, **values)


class Samples:
    """An engine history of a few samples, stale after 15 seconds."""

    def __init__(self, *samples: EngineSample) -> None:
        self.samples = sorted(samples, key=lambda one: one.at)

    def sample_before(self, where: Where, when: float) -> EngineSample | None:
        meant = [one for one in self._meant(where) if when - STALE <= one.at <= when]
        return meant[-1] if meant and len({one.key for one in meant}) == 1 else None

    def samples_between(self, where: Where, start: float, end: float) -> Sequence[EngineSample]:
        return [one for one in self._meant(where) if start <= one.at <= end]

    def _meant(self, where: Where) -> list[EngineSample]:
        return [one for one in self.samples if where is None or where in (one.key, one.key.model_name)]


class Desk:
    """A joiner, its clock and what it handed out."""

    def __init__(self, *samples: EngineSample, classify=None, max_pending: int = 1000, history=None) -> None:
        self.clock = ManualClock(wall=T)
        self.faults = Faults(EventLog("join"))
        self.joiner = Joiner(
            clock=self.clock,
            window=WINDOW,
            max_pending=max_pending,
            samples=history or Samples(*samples),
            classify=classify or _no_cause,
            faults=self.faults,
        )

    def add(self, *records: EdgeRecord | EngineRecord) -> None:
        for record in records:
            self.joiner.add(record)

    def after(self, seconds: float) -> list[JoinedRequest]:
        """What closes within so many seconds."""
        self.clock.advance(seconds)
        return self.joiner.close_due(self.clock.monotonic())

    def join(self, *records: EdgeRecord | EngineRecord) -> list[JoinedRequest]:
        """What becomes of records that come at once, when the window is over."""
        self.add(*records)
        return self.after(WINDOW)


def _no_cause(_request: JoinedRequest, _around: Surroundings) -> Evidence | None:
    return None
