"""Slow or not: by which measure a request was slow, and by how much."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from vllm_observe.join.targets import tpot_s, ttft_s
from vllm_observe.join.usual import Usual
from vllm_observe.model import JoinedRequest, Outcome
from vllm_observe.thresholds import SLOW_FACTOR, SLOW_FLOOR_S, Targets

__all__ = ["Measure", "Slowness", "in_seconds", "slowness"]


class Measure(Enum):
    """What of a request can be slow; the value is how a sentence about it begins."""

    TTFT = "the first token took"
    TPOT = "each output token took"
    E2E = "the request took"


class Slowness(NamedTuple):
    """The measure by which a request was slowest, its seconds, and a clause that says so."""

    measure: Measure
    seconds: float
    text: str


def slowness(request: JoinedRequest, targets: Targets, usual: Usual | None) -> Slowness | None:
    """Find by which measure a request is the slowest; ``None`` if by none.

    A broken target is a broken promise, so what is usual counts where all targets were kept. A timeout
    is slow by definition: in its first token, where none came.
    """
    first, duration = ttft_s(request), request.duration_s
    if request.outcome is Outcome.TIMEOUT and duration is not None:
        if first is None and all(edge.stream is not False for edge in request.edges):
            return Slowness(Measure.TTFT, duration, f"no token had come after {in_seconds(duration)}")
        return Slowness(Measure.E2E, duration, f"it timed out after {in_seconds(duration)}")
    bounds = [
        (Measure.TTFT, first, targets.ttft, _target(targets.ttft)),
        (Measure.TPOT, tpot_s(request), targets.tpot, _target(targets.tpot)),
    ]
    if targets.e2e is not None:
        bounds.append((Measure.E2E, duration, targets.e2e, _target(targets.e2e)))
    broken = _most_exceeded(bounds)
    if broken is not None or usual is None:
        return broken
    most = max(SLOW_FACTOR * usual.duration_s, SLOW_FLOOR_S)
    times = f"{SLOW_FACTOR:g} times the profile's usual {in_seconds(usual.duration_s)}"
    return _most_exceeded([(Measure.E2E, duration, most, times)])


def _most_exceeded(bounds: Iterable[tuple[Measure, float | None, float, str]]) -> Slowness | None:
    exceeded = [
        (seconds / bound, Slowness(measure, seconds, f"{measure.value} {in_seconds(seconds)}, over {name}"))
        for measure, seconds, bound, name in bounds
        if seconds is not None and seconds > bound > 0
    ]
    return max(exceeded, key=lambda found: found[0])[1] if exceeded else None


def _target(seconds: float) -> str:
    return f"the target of {in_seconds(seconds)}"


def in_seconds(seconds: float) -> str:
    """Write a duration for a person: ``3.1 s``, or ``40 ms`` where it is less than a second."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
