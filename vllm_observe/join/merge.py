"""One request of one attempt's parts: its outcome, its phases, and only times that can be true."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from vllm_observe.join.attempts import Attempt, engine_start
from vllm_observe.model import EdgeRecord, EngineRecord, JoinedRequest, Outcome, Parts, Phases

__all__ = ["merge"]

#: From the best to the worst. The timeout of an app is an abort for what is behind it.
_SEVERITY = (Outcome.OK, Outcome.ABORT, Outcome.TIMEOUT, Outcome.REJECTED, Outcome.ERROR)

_PHASES = ("queue_s", "prefill_s", "decode_s")
#: The time that a record gives to the whole, and then those that are a part of it.
_TIMES: Mapping[type, tuple[str, ...]] = {
    EdgeRecord: ("duration_s", "ttft_s"),
    EngineRecord: ("e2e_s", *_PHASES, "tpot_s"),
}
#: More than any time; not infinity, which no time is.
_UNBOUNDED_S = sys.float_info.max
#: How far a time may exceed what holds it. Some releases take an unset milestone for 0, so that a
#: phase lasts as long as the host is up, and apps mix up units: nothing closer than this is ever
#: wrong that way, but may well be rounded to whole seconds.
_EXCESS_S = 1.0

_R = TypeVar("_R", EdgeRecord, EngineRecord)


def merge(request_id: str, number: int, attempt: Attempt) -> JoinedRequest:
    """Make a request of an attempt's records, as yet without the engine's samples and a cause.

    Args:
        request_id: the client's id; the engine's where no edge record is known.
        number: which attempt of that id it is, from 1.
        attempt: at least one record that tells how it ended.
    """
    edges = tuple(_believable(edge, _UNBOUNDED_S) for edge in attempt.edges)
    outcome = _outcome(edges, attempt.engines)
    felt = next((edge.duration_s for edge in edges if edge.duration_s is not None), None)
    # An engine may go on for a while after its client has left: only a client that waited bounds its times.
    bound = felt if felt is not None and outcome is Outcome.OK else _UNBOUNDED_S
    engines = tuple(_believable(part, bound) for part in attempt.engines)
    # By the records as they were read: a part whose times cannot be true leaves the phases unknown.
    timed = [part for part, read in zip(engines, attempt.engines, strict=True) if read.is_timed]
    return JoinedRequest(
        request_id=request_id,
        attempt=number,
        edges=edges,
        engines=engines,
        outcome=outcome,
        phases=_phases(felt, timed) if timed else _phases_outside(edges),
        parts=Parts.BOTH if edges and engines else Parts.EDGE if edges else Parts.ENGINE,
    )


def _outcome(edges: Sequence[EdgeRecord], engines: Sequence[EngineRecord]) -> Outcome:
    """Return the worst of what the parts say: a proxy's 200 does not undo the engine's abort."""
    ended = [part for part in engines if part.outcome is not None]
    outcomes: list[Outcome | None] = [edge.outcome for edge in _not_superseded(edges)]
    outcomes += [part.outcome for part in _not_superseded(ended)]
    return max((outcome for outcome in outcomes if outcome is not None), key=_SEVERITY.index)


def _not_superseded(parts: Sequence[_R]) -> Sequence[_R]:
    """Leave out parts that were retried within the attempt: those that ended before another began."""
    if len(parts) < 2:  # noqa: PLR2004  # one alone was not tried again
        return parts
    last_start = max(map(_known_start, parts))
    return [part for part in parts if part.ts >= last_start]


def _known_start(part: EdgeRecord | EngineRecord) -> float:
    length = part.duration_s if isinstance(part, EdgeRecord) else part.e2e_s
    return -math.inf if length is None else part.started_at


def _believable(part: _R, bound: float) -> _R:
    """Return the record without times that are negative or longer than what they are a part of."""
    whole, *_ = names = _TIMES[type(part)]
    wrong: dict[str, None] = {}
    for name in names:
        seconds = getattr(part, name)
        if seconds is None:
            continue
        if not 0 <= seconds <= bound + _EXCESS_S:
            wrong[name] = None
        elif name is whole and seconds < bound:
            bound = seconds
    return msgspec.structs.replace(part, **wrong) if wrong else part


def _phases(felt: float | None, engines: Sequence[EngineRecord]) -> Phases:
    """Add up the parts that a request went through one after the other.

    What is left of the duration is outside: network, app and proxy, and also what vLLM's API process
    does before the engine queues a request (tokenizing) and after it made a token. So the phases add
    up to the duration.
    """
    path = _critical_path(engines)
    queue = _sum([part.queue_s for part in path])
    prefill = _sum([part.prefill_s for part in path])
    decode = _sum([part.decode_s for part in path])
    inside = _sum([queue, prefill, decode])
    if inside is None:
        inside = _sum([part.e2e_s for part in path])
    outside = None if felt is None or inside is None else max(0.0, felt - inside)
    return Phases(outside=outside, queue=queue, prefill=prefill, decode=decode)


def _critical_path(engines: Sequence[EngineRecord]) -> Sequence[EngineRecord]:
    """Return the parts that the end had to wait for, backwards from the last to end.

    Of several answers at once that is one, of a prefill and a decode leg it is both.
    """
    if len(engines) == 1:
        return engines
    path: list[EngineRecord] = []
    for part in sorted(engines, key=lambda part: part.ts, reverse=True):
        if not path or part.ts <= engine_start(path[-1]):
            path.append(part)
    return path


def _phases_outside(edges: Sequence[EdgeRecord]) -> Phases:
    """Return what the request log alone says about the phases.

    Where it streamed, the time after the first token is decoding: the network delays the first token
    and the last alike. The time before cannot be told apart into outside, queue and prefill.
    """
    for edge in edges:
        if edge.stream and edge.ttft_s is not None and edge.duration_s is not None:
            return Phases(decode=max(0.0, edge.duration_s - edge.ttft_s))
    return Phases()


def _sum(values: Sequence[float | None]) -> float | None:
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total
