"""The latencies that a user feels, and whether they keep what the service class promises."""

from __future__ import annotations

from vllm_observe.model import EngineRecord, JoinedRequest, Outcome
from vllm_observe.thresholds import Targets

__all__ = ["engine_tpot_s", "targets_met", "tpot_s", "ttft_s"]


def ttft_s(request: JoinedRequest) -> float | None:
    """Seconds to the first token that the user saw; ``None`` where the answer came all at once."""
    return None if _came_at_once(request) else request.ttft_s


def tpot_s(request: JoinedRequest) -> float | None:
    """Seconds for each output token after the first.

    As the user saw it, where one engine part streamed its tokens; else as the slowest part counted it.
    Lines of vLLM's own log are no parts beside a timed one: they repeat what it says.
    """
    duration, first, tokens = request.duration_s, ttft_s(request), request.completion_tokens
    seen = request.edges and sum([part.is_timed for part in request.engines]) <= 1
    if seen and duration is not None and first is not None and tokens is not None and tokens > 1:
        return max(0.0, duration - first) / (tokens - 1)
    return engine_tpot_s(request)


def engine_tpot_s(request: JoinedRequest) -> float | None:
    """Seconds for each output token after the first, as the slowest engine part counted it."""
    rates = map(_part_tpot_s, request.engines)
    return max((rate for rate in rates if rate is not None), default=None)


def targets_met(request: JoinedRequest, targets: Targets) -> dict[str, bool]:
    """Say of each target that a request can be judged by (ttft, tpot, e2e) whether it was met.

    Requests that ended well are judged by what is known of them. A timeout is judged too: it has
    missed its target for the duration, and that for the first token where none came. Any other end
    says nothing of the server's speed, and is counted by its outcome.
    """
    if request.outcome not in (Outcome.OK, Outcome.TIMEOUT):
        return {}
    felt = {"ttft": ttft_s(request), "tpot": tpot_s(request), "e2e": request.duration_s}
    met = {
        name: seconds <= promised
        for name, promised in targets._asdict().items()
        if promised is not None and (seconds := felt[name]) is not None
    }
    if request.outcome is Outcome.TIMEOUT:
        if targets.e2e is not None:
            met["e2e"] = False
        if felt["ttft"] is None and not _came_at_once(request):
            met["ttft"] = False
    return met


def _came_at_once(request: JoinedRequest) -> bool:
    return False in [edge.stream for edge in request.edges]


def _part_tpot_s(part: EngineRecord) -> float | None:
    if part.tpot_s is not None or part.decode_s is None:
        return part.tpot_s
    if part.completion_tokens is None or part.completion_tokens <= 1:
        return None
    return part.decode_s / (part.completion_tokens - 1)
