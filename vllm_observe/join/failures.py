"""Why a request failed, by what its client was told and how its engine ended it."""

from __future__ import annotations

from vllm_observe.join.slowness import in_seconds
from vllm_observe.join.targets import ttft_s
from vllm_observe.model import Cause, Evidence, JoinedRequest, Outcome

__all__ = ["failure"]

_BAD_REQUEST, _SERVER_ERROR = 400, 500


def failure(request: JoinedRequest, *, engine_down: bool) -> Evidence | None:
    """Name the cause of a failed request; ``None`` for a good one, and for one that timed out.

    Why a request timed out is why it was slow.

    Args:
        request: any request.
        engine_down: whether the engine behind it is known to be dead or stalled.
    """
    if request.outcome is Outcome.ABORT:
        return _aborted(request)
    if request.outcome is Outcome.REJECTED:
        return Evidence(Cause.REJECTED, f"refused{_with(_status(request))}{_after(request)}")
    if request.outcome is Outcome.ERROR:
        return _error(request, engine_down=engine_down)
    return None


def _aborted(request: JoinedRequest) -> Evidence:
    if not request.edges:
        text = f"the engine aborted it{_after(request)}, as it does when a client leaves"
        return Evidence(Cause.CLIENT_DISCONNECTED, text)
    if all(edge.outcome is Outcome.OK for edge in request.edges):
        text = f"the engine aborted it, though it was answered{_with(_status(request))}"
        return Evidence(Cause.ENGINE_ERROR, text)
    first = ttft_s(request)
    seen = "before any token" if first is None else f"its first token came after {in_seconds(first)}"
    return Evidence(Cause.CLIENT_DISCONNECTED, f"the client left{_after(request)}; {seen}")


def _error(request: JoinedRequest, *, engine_down: bool) -> Evidence:
    status = _status(request)
    answered = f"answered{_with(status)}{_after(request)}"
    if any(part.finish_reason == "error" for part in request.engines):
        return Evidence(Cause.ENGINE_ERROR, f"the engine ended it with an error; {answered}")
    if status is None:
        return Evidence(Cause.SERVER_ERROR, f"failed without an HTTP status{_after(request)}")
    if status < _BAD_REQUEST:
        return Evidence(Cause.ENGINE_ERROR, f"{answered}, with an error instead of tokens")
    if status < _SERVER_ERROR:
        return Evidence(Cause.CLIENT_ERROR, answered)
    if engine_down:
        return Evidence(Cause.ENGINE_ERROR, f"{answered}, while the engine made no tokens")
    return Evidence(Cause.SERVER_ERROR, answered)


def _status(request: JoinedRequest) -> int | None:
    """Return the status that tells of the failure: the outermost that is an error, else the outermost."""
    known = [edge.status for edge in request.edges if edge.status is not None]
    return next((status for status in known if status >= _BAD_REQUEST), next(iter(known), None))


def _with(status: int | None) -> str:
    return "" if status is None else f" with {status}"


def _after(request: JoinedRequest) -> str:
    return "" if request.duration_s is None else f" after {in_seconds(request.duration_s)}"
