"""The cause: the one reason that best explains a slow or failed request, with its evidence."""

from __future__ import annotations

from collections.abc import Callable

from vllm_observe.join.failures import failure
from vllm_observe.join.pressure import LimitsFor
from vllm_observe.join.slow import SlowRequest
from vllm_observe.join.slowness import slowness
from vllm_observe.join.surroundings import Surroundings
from vllm_observe.join.usual import Usual
from vllm_observe.model import Cause, Evidence, JoinedRequest, Outcome
from vllm_observe.thresholds import Targets

__all__ = ["Classifier"]


class Classifier:
    """Names causes by what the sidecar knows at the time.

    Args:
        targets: what the server promises; may be replaced while running.
        limits_for: gives an engine's limits, by its rank.
        usual: gives what is usual for requests like one.
        engine_down: says whether the engine behind a request is known to be dead or stalled, or to have
            ended with it.
    """

    def __init__(
        self,
        *,
        targets: Targets,
        limits_for: LimitsFor,
        usual: Callable[[JoinedRequest], Usual | None],
        engine_down: Callable[[JoinedRequest], bool] = lambda _: False,
    ) -> None:
        self.targets = targets
        self._limits_for = limits_for
        self._usual = usual
        self._engine_down = engine_down

    def __call__(self, request: JoinedRequest, around: Surroundings) -> Evidence | None:
        """Name the cause of a slow or failed request; ``None`` where it is neither.

        Args:
            request: as yet without evidence.
            around: the engine's samples around it.
        """
        failed = failure(request, engine_down=self._engine_down)
        if failed is not None:
            return failed
        usual = self._usual(request)
        slow = slowness(request, self.targets, usual)
        if slow is not None:
            return SlowRequest(request, slow, around, usual, self.targets, self._limits_for).explain()
        if request.outcome is Outcome.TIMEOUT:
            return Evidence(Cause.UNKNOWN, "it timed out; after how long is not known")
        return None
