"""The true cause of each request's slowness or failure: what the simulator did to it.

This is the yardstick for the causes that the product names. It is written beside the records, and
nothing in the product reads it.
"""

from __future__ import annotations

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
    else what took most of its time. ``also`` is the other queue, where a request that waited for slots
    and for blocks would have broken its promise for either alone: which of them an engine lacks changes
    from step to step, and then more of one alone would mend nothing. ``spent`` holds the seconds of each cause: of a request's decode time
    ``decode_long`` is what its tokens take alone on sound hardware, ``decode_slow`` the rest.
    """

    request_id: str
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
}
#: What else a request waits for has no cause of its own in the product's words.
_HOLDS = {
    Hold.SLOTS: Cause.QUEUE_SLOTS,
    Hold.KV: Cause.QUEUE_KV,
    Hold.SLOTS_AND_KV: Cause.QUEUE_KV,
}
_QUEUES = {Cause.QUEUE_SLOTS, Cause.QUEUE_KV}


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
    lost = after[Cause.PREEMPTED]
    if failed:
        cause = _FAILURES[ended.end]
    elif not slow:
        cause = _most(spent)
    elif late >= pace:
        cause = _most(before)
    else:
        cause = Cause.PREEMPTED if lost > sum(after.values()) - lost else Cause.DECODE_SLOW
    return Label(
        request_id=arrival.request_id,
        started_at=epoch + arrival.at,
        ended_at=epoch + ended.at,
        failed=failed,
        slow=slow,
        cause=cause,
        also=_other_queue(ended, cause, promise) if slow else None,
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
    if ended.prefill_s is not None:
        spent[Cause.PREEMPTED] = ended.lost_before_first_s
        spent[Cause.PREFILL_LONG] = ended.prefill_s - ended.lost_before_first_s
    return spent


def _after_first_token(ended: Ended) -> dict[Cause, float]:
    whole, lost = ended.decode_s or 0.0, ended.lost_s - ended.lost_before_first_s
    ideal = min(ended.ideal_decode_s, max(0.0, whole - lost))
    return {
        Cause.PREEMPTED: lost,
        Cause.DECODE_LONG: ideal,
        Cause.DECODE_SLOW: max(0.0, whole - lost - ideal),
    }


def _most(spent: Mapping[Cause, float]) -> Cause:
    return max(spent, key=lambda cause: spent[cause])


def label_line(told: Label) -> bytes:
    """Write a label as a line of JSON, its newline included."""
    return msgspec.json.encode(told) + b"\n"
