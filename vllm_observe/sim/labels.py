"""The true cause of each request's slowness or failure: what the simulator did to it.

This is the yardstick for the causes that the product names. It is written beside the records, and
nothing in the product reads it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from vllm_observe.model import Cause
from vllm_observe.sim.requests import End, Ended, Hold

__all__ = ["Label", "Promise", "label", "label_line"]


class Promise(NamedTuple):
    """What requests are promised, in seconds: to the first token, and for each one after it."""

    ttft: float
    tpot: float


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The truth about one attempt of a request.

    ``slow`` says whether it broke its promise. ``cause`` is why it failed; why it broke the promise;
    else what took most of its time. Of a request whose client gave up at a time limit it is what took
    most of that time. Most is the longest phase, and what took most of that: who waited 12 s for slots
    and 13 s for tokens has waited longer than the 14 s in which it decoded.

    ``also`` is true as well. Of a request that was given up it is that its client left, which is all
    that its server saw of it. Of one that waited for slots and for blocks, and would have broken its
    promise for either alone, it is the other queue: which of them an engine lacks changes from step to
    step, and then more of one alone would mend nothing.

    ``spent`` holds the seconds of each cause: of a request's decode time ``decode_long`` is what its
    tokens take alone on sound hardware, ``decode_slow`` the rest.
    """

    request_id: str
    attempt: int
    started_at: float
    ended_at: float
    failed: bool
    slow: bool
    cause: Cause
    also: Cause | None
    spent: Mapping[Cause, float]
    held: Mapping[str, float]

    def agrees(self, cause: Cause) -> bool:
        """Say whether a cause that was named is true."""
        return cause in {self.cause, self.also}


_FAILURES = {
    End.LEFT: Cause.CLIENT_DISCONNECTED,
    End.REFUSED: Cause.REJECTED,
    End.INVALID: Cause.CLIENT_ERROR,
    End.FAILED: Cause.ENGINE_ERROR,
    End.BROKEN: Cause.SERVER_ERROR,
}
#: What else a request waits for has no cause of its own in the product's words.
_HOLDS = {
    Hold.SLOTS: Cause.QUEUE_SLOTS,
    Hold.KV: Cause.QUEUE_KV,
    Hold.SLOTS_AND_KV: Cause.QUEUE_KV,
    Hold.BUDGET: Cause.QUEUE_BUDGET,
    Hold.DEFERRED: Cause.QUEUE_DEFERRED,
    Hold.HUNG: Cause.ENGINE_ERROR,
}
_QUEUES = {Cause.QUEUE_SLOTS, Cause.QUEUE_KV}
#: What several causes share the time of; every other cause has a time of its own.
_PHASES = {
    **dict.fromkeys((*_QUEUES, Cause.QUEUE_BUDGET, Cause.QUEUE_DEFERRED), "queue"),
    **dict.fromkeys((Cause.DECODE_LONG, Cause.DECODE_SLOW), "decode"),
}


def label(ended: Ended, promise: Promise, *, epoch: float = 0.0) -> Label:
    """Say why a request was slow or failed.

    Args:
        ended: the request.
        promise: what it was promised.
        epoch: the time of day at the simulation's second 0.
    """
    arrival, first = ended.arrival, ended.first_token_at
    late = (first - arrival.at) / promise.ttft if first is not None and arrival.stream else 0.0
    pace = (ended.tpot_s or 0.0) / promise.tpot
    failed, slow = ended.end in _FAILURES, ended.finished and max(late, pace) > 1.0
    before, after = _until_first_token(ended), _after_first_token(ended)
    spent = {cause: before.get(cause, 0.0) + after.get(cause, 0.0) for cause in (*before, *after)}
    gave_up = ended.end is End.LEFT and arrival.times_out
    if gave_up:
        cause = _most(spent)
    elif failed:
        cause = _FAILURES[ended.end]
    elif not slow:
        cause = _most(spent)
    elif late >= pace:
        cause = _most(before)
    else:
        cause = _why_slow_tokens(after)
    return Label(
        request_id=arrival.request_id,
        attempt=arrival.attempt,
        started_at=epoch + arrival.at,
        ended_at=epoch + ended.at,
        failed=failed,
        slow=slow,
        cause=cause,
        also=Cause.CLIENT_DISCONNECTED if gave_up else _other_queue(ended, cause, promise) if slow else None,
        spent=spent,
        held={hold.value: seconds for hold, seconds in ended.held.items()},
    )


def _other_queue(ended: Ended, cause: Cause, promise: Promise) -> Cause | None:
    """Return the queue that was not the cause, if it was enough to be."""
    for other, hold in ((Cause.QUEUE_SLOTS, Hold.SLOTS), (Cause.QUEUE_KV, Hold.KV)):
        seconds = ended.held.get(hold, 0.0) + ended.held.get(Hold.SLOTS_AND_KV, 0.0)
        if cause in _QUEUES and cause is not other and seconds > promise.ttft:
            return other
    return None


def _until_first_token(ended: Ended) -> dict[Cause, float]:
    spent = {Cause.OUTSIDE_ENGINE: ended.arrival.outside_s}
    for hold, seconds in ended.held.items():
        cause = _HOLDS.get(hold, Cause.UNKNOWN)
        spent[cause] = spent.get(cause, 0.0) + seconds
    if ended.scheduled_at is not None:
        first = ended.at if ended.first_token_at is None else ended.first_token_at
        hung = ended.hung_s if ended.first_token_at is None else ended.hung_before_first_s
        hung -= ended.held.get(Hold.HUNG, 0.0)
        lost = ended.lost_s if ended.first_token_at is None else ended.lost_before_first_s
        spent[Cause.ENGINE_ERROR] = spent.get(Cause.ENGINE_ERROR, 0.0) + hung
        spent[Cause.PREEMPTED] = lost
        spent[Cause.PREFILL_LONG] = max(0.0, first - ended.scheduled_at - lost - hung)
    return spent


def _after_first_token(ended: Ended) -> dict[Cause, float]:
    if ended.first_token_at is None:
        return dict.fromkeys((Cause.PREEMPTED, Cause.DECODE_LONG, Cause.DECODE_SLOW), 0.0)
    whole = (ended.decode_s or 0.0) if ended.finished else ended.at - ended.first_token_at
    lost, hung = ended.lost_s - ended.lost_before_first_s, ended.hung_s - ended.hung_before_first_s
    rest = max(0.0, whole - lost - hung)
    ideal = min(ended.ideal_decode_s, rest)
    return {
        Cause.ENGINE_ERROR: hung,
        Cause.PREEMPTED: lost,
        Cause.DECODE_LONG: ideal,
        Cause.DECODE_SLOW: rest - ideal,
    }


def _why_slow_tokens(after: Mapping[Cause, float]) -> Cause:
    """Say what made tokens slow: of the time that none of it explains, the hardware is the cause."""
    slow = after[Cause.DECODE_LONG] + after[Cause.DECODE_SLOW]
    return _most({**after, Cause.DECODE_LONG: 0.0, Cause.DECODE_SLOW: slow})


def _most(spent: Mapping[Cause, float]) -> Cause:
    """Return the longest part of the phase that took longest: being told apart makes no phase shorter."""
    whole: defaultdict[str, float] = defaultdict(float)
    for cause, seconds in spent.items():
        whole[_PHASES.get(cause, cause.value)] += seconds
    return max(spent, key=lambda cause: (whole[_PHASES.get(cause, cause.value)], spent[cause]))


def label_line(told: Label) -> bytes:
    """Write a label as a line of JSON, its newline included."""
    return msgspec.json.encode(told) + b"\n"
