"""A play: arrivals and what befalls the server, in the order of time, on a clock that costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from vllm_observe.model import EngineSample
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.requests import Arrival, Ended

__all__ = ["Event", "Seen", "play"]

# What comes first of two things at the same time.
_EVENT, _ARRIVAL, _LOOK = range(3)


class Event(NamedTuple):
    """Something that is done to the server at a time."""

    at: float
    act: Callable[[Deployment], None]


class Seen(NamedTuple):
    """What the engines told of themselves at a time."""

    at: float
    samples: list[EngineSample]


def play(
    deployment: Deployment,
    arrivals: Iterable[Arrival],
    *,
    until: float,
    events: Iterable[Event] = (),
    sample_every: float = 5.0,
) -> Iterator[Ended | Seen]:
    """Play to a time; tell, in order, of the requests that ended and of the engines' state.

    What is still running at the end is not told of. The deployment may be looked at between any two.

    Args:
        deployment: the server.
        arrivals: in the order of their times.
        until: the time of the end.
        events: in the order of theirs; before an arrival at the same time.
        sample_every: seconds between two looks at the engines.
    """
    numbers = count()
    agenda: list[tuple[float, int, int, Event | Arrival | None]] = []

    def put(at: float, order: int, what: Event | Arrival | None) -> None:
        heappush(agenda, (max(at, deployment.now), order, next(numbers), what))

    for event in events:
        put(event.at, _EVENT, event)
    put(deployment.now + sample_every, _LOOK, None)
    coming = iter(arrivals)
    following = next(coming, None)
    while True:
        while following is not None and following.at <= agenda[0][0]:
            put(following.reaches_engine_at, _ARRIVAL, following)
            following = next(coming, None)
        if agenda[0][0] > until:
            break
        at, _, _, what = heappop(agenda)
        yield from deployment.advance(at)
        if isinstance(what, Event):
            what.act(deployment)
        elif isinstance(what, Arrival):
            deployment.submit(what)
        else:
            yield Seen(at, deployment.samples())
            put(at + sample_every, _LOOK, None)
    yield from deployment.advance(until)
