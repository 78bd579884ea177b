"""The outbox: a request of each attempt, with the engine around it, its cause and its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from vllm_observe.join.attempts import Attempt
from vllm_observe.join.coverage import accounted
from vllm_observe.join.identity import uid
from vllm_observe.join.merge import merge
from vllm_observe.join.surroundings import EngineHistory, Surroundings, surroundings
from vllm_observe.logs import Faults
from vllm_observe.model import Cause, Evidence, JoinedRequest

__all__ = ["Classify", "JoinStats", "Outbox"]

#: Names the cause of a slow or failed request, by the engine's samples around it.
Classify = Callable[[JoinedRequest, Surroundings], Evidence | None]

_NO_CAUSE = Evidence(Cause.UNKNOWN, "a fault of this program kept the cause from being named; its log tells")


@dataclass(slots=True)
class JoinStats:
    """What happened since the start."""

    early: int = 0  # ids closed before their time, because a bound was reached
    amended: int = 0  # requests handed out again, because a part came late


class Outbox:
    """Requests that were made and not yet taken.

    Args:
        samples: finds the engine's state around a request.
        classify: names the cause of a slow or failed one.
        stats: counts those that amend another.
        faults: of naming a cause; the request goes on without.
    """

    def __init__(
        self, *, samples: EngineHistory, classify: Classify, stats: JoinStats, faults: Faults
    ) -> None:
        self._samples = samples
        self._classify = classify
        self._stats = stats
        self._faults = faults
        self._requests: list[JoinedRequest] = []

    def put(self, request_id: str, attempt: Attempt) -> None:
        """Make a request of an attempt, and note in the attempt what was handed out of it."""
        request = merge(request_id, attempt.number, attempt)
        amends = bool(attempt.uid)
        attempt.uid = attempt.uid or uid(request)
        around, evidence = self._explain(request)
        self._requests.append(
            msgspec.structs.replace(
                request,
                uid=attempt.uid,
                amends=amends,
                absorbs=attempt.absorbs,
                claimed=attempt.claimed,
                before_arrival=around.before_arrival,
                before_end=around.last,
                evidence=evidence,
            )
        )
        attempt.handed_out, attempt.absorbs = attempt.size, ()
        attempt.claimed = accounted(request)
        self._stats.amended += amends

    def _explain(self, request: JoinedRequest) -> tuple[Surroundings, Evidence | None]:
        try:
            around = surroundings(self._samples, request)
            return around, self._classify(request, around)
        except Exception as error:  # noqa: BLE001  # what cannot be explained has happened all the same
            self._faults.survived(error)
            return Surroundings(), _NO_CAUSE

    def take(self) -> list[JoinedRequest]:
        """Take out the requests, in the order in which they were put."""
        taken, self._requests = self._requests, []
        return taken
