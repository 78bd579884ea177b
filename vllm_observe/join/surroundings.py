"""The engine around a request: its samples before the arrival, until the end, and just before that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import msgspec

from vllm_observe.engine.sampling import work_present
from vllm_observe.join.attempts import engine_start
from vllm_observe.model import EngineKey, EngineSample, JoinedRequest

__all__ = ["EngineHistory", "Surroundings", "Where", "at_the_end", "started_at", "surroundings"]

#: Which engine is meant: a key; a model's name, for all its engines; ``None``, for all there are.
Where = EngineKey | str | None

#: How far back to look for the engines there are. It only bounds the search: what was stale at the
#: arrival is left out by the history itself.
_LOOK_BACK_S = 300.0

#: Seconds without a token from which an engine with work stands still, as far as one request goes.
_STILL_S = 10.0


class EngineHistory(Protocol):
    """What the join asks of the engine's side. Times are seconds since the Unix epoch."""

    def sample_before(self, where: Where, when: float) -> EngineSample | None:
        """Return the engine's newest sample at or before a time.

        ``None`` where that was stale by then, or where several engines are meant.
        """

    def samples_between(self, where: Where, start: float, end: float) -> Sequence[EngineSample]:
        """Return the samples between two times, of every engine meant, oldest first."""


class Surroundings(NamedTuple):
    """The samples of the engine that served a request; of all that may have, where that is not known."""

    before: Sequence[EngineSample] = ()  # of each engine the last before the arrival
    during: Sequence[EngineSample] = ()  # from the arrival to the end, oldest first
    last: EngineSample | None = None  # the last before the end, where one engine is meant

    @property
    def before_arrival(self) -> EngineSample | None:
        """The last sample before the arrival, where one engine is meant."""
        return self.before[0] if len(self.before) == 1 else None

    def meanwhile(self, until: float) -> list[EngineSample]:
        """Return the samples from the arrival to a time.

        Where none was taken by then, the first one taken after it stands for them.
        """
        if not self.during:
            return []
        until = max(until, self.during[0].at)
        return [sample for sample in self.during if sample.at <= until]

    def until(self, when: float) -> list[EngineSample]:
        """Return the samples before the arrival, and those from there to a time."""
        return [*self.before, *self.meanwhile(when)]

    def stood_still(self, until: float) -> float:
        """Return for how many seconds the engine had work and did nothing, where one engine is meant.

        A first prefill of many tokens moves no counter for a while either: a few seconds say nothing.
        """
        nearby = [*self.before, *(sample for sample in self.during if sample.at <= until)]
        samples = [sample for sample in nearby if sample.generation_tokens is not None]
        if len({sample.key for sample in samples}) != 1:
            return 0.0
        still = longest = 0.0
        for earlier, later in pairwise(samples):
            still = still + later.at - earlier.at if _did_nothing(earlier, later) else 0.0
            longest = max(longest, still)
        return longest if longest >= _STILL_S else 0.0


def _did_nothing(earlier: EngineSample, later: EngineSample) -> bool:
    counted, before = (
        (sample.generation_tokens, sample.prompt_tokens, sample.steps) for sample in (later, earlier)
    )
    if counted[0] is None or counted != before:
        return False
    return bool(work_present(earlier) and work_present(later))


def started_at(request: JoinedRequest) -> float:
    """When the first part of a request began, in seconds since the Unix epoch."""
    return min([*[edge.started_at for edge in request.edges], *map(engine_start, request.engines)])


def at_the_end(request: JoinedRequest) -> list[EngineSample]:
    """Return what its engines said of themselves as a request ended, as samples of that time, oldest first."""
    told = [
        EngineSample(
            at=part.ts,
            key=EngineKey(part.model or "", part.engine or ""),
            **msgspec.structs.asdict(part.state),
        )
        for part in request.engines
        if part.state is not None
    ]
    return sorted(told, key=lambda sample: sample.at)


def surroundings(history: EngineHistory, request: JoinedRequest) -> Surroundings:
    """Find the samples around a request.

    A client may have named an alias or an adapter: where no engine serves a model of that name, the
    only model that there is was meant.
    """
    start, end = started_at(request), request.ended_at
    for where in _meant(request):
        if isinstance(where, EngineKey):
            around = _around(history, where, [where], start, end)
            if around.before or around.during:  # nearly every request that its engine told of
                return around
        nearby = history.samples_between(where, start - _LOOK_BACK_S, end)
        keys = dict.fromkeys([sample.key for sample in nearby])
        if keys and (where is not None or len({key.model_name for key in keys}) == 1):
            return _around(history, where, keys, start, end)
    return Surroundings()


def _around(
    history: EngineHistory, where: Where, keys: Iterable[EngineKey], start: float, end: float
) -> Surroundings:
    before = [found for key in keys if (found := history.sample_before(key, start)) is not None]
    during = history.samples_between(where, start, end)
    return Surroundings(before, during, history.sample_before(where, end))


def _meant(request: JoinedRequest) -> Iterator[Where]:
    """List the engines that may be meant, the most specific first."""
    model, engine = request.model_name, request.engine
    if model is not None:
        if engine is not None:
            yield EngineKey(model, engine)
        yield model
    yield None
