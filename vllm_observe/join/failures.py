"""Why a request failed, judged by its client's answer and by how its engine ended it."""

from __future__ import annotations

from collections.abc import Callable

from vllm_observe.join.slowness import in_seconds
from vllm_observe.join.targets import ttft_s
from vllm_observe.model import Cause, Evidence, JoinedRequest, Outcome

__all__ = ["failure"]

_BAD_REQUEST, _SERVER_ERROR = 400, 500
#: How vLLM's releases name an engine's death: the classes of vllm.engine and vllm.v1.engine.
_ENGINE_ERRORS = frozenset(
    ("AsyncEngineDeadError", "EngineDeadError", "EngineGenerateError", "MQEngineDeadError")
)


def failure(request: JoinedRequest, *, engine_down: Callable[[JoinedRequest], bool]) -> Evidence | None:
    """Name the cause of a failed request; ``None`` for a good one, and for one that timed out.

    Why a request timed out is why it was slow.

    Args:
        request: any request.
        engine_down: says whether the engine behind one is known to be dead or stalled, or to have ended
            with it. Most requests are good: it is asked where it matters.
    """
    if request.outcome is Outcome.ABORT:
        return _aborted(request)
    if request.outcome is Outcome.REJECTED:
        return Evidence(Cause.REJECTED, f"refused{_with(request.status)}{_after(request)}")
    if request.outcome is Outcome.ERROR:
        return _error(request, engine_down=engine_down)
    return None


def _aborted(request: JoinedRequest) -> Evidence:
    if not request.edges:
        text = f"the engine aborted it{_after(request)}, as it does when a client leaves"
        return Evidence(Cause.CLIENT_DISCONNECTED, text)
    if all(edge.outcome is Outcome.OK for edge in request.edges):
        text = f"the engine aborted it, though it was answered{_with(request.status)}"
        return Evidence(Cause.ENGINE_ERROR, text)
    first = ttft_s(request)
    seen = "before any token" if first is None else f"its first token came after {in_seconds(first)}"
    return Evidence(Cause.CLIENT_DISCONNECTED, f"the client left{_after(request)}; {seen}")


def _error(request: JoinedRequest, *, engine_down: Callable[[JoinedRequest], bool]) -> Evidence:
    status = request.status
    how = "failed without an HTTP status" if status is None else f"answered{_with(status)}"
    why = _by_engine(request, status, engine_down=engine_down)
    if why is not None:
        return Evidence(Cause.ENGINE_ERROR, f"{how}{_after(request)}, {why}")
    is_clients = status is not None and status < _SERVER_ERROR
    return Evidence(Cause.CLIENT_ERROR if is_clients else Cause.SERVER_ERROR, f"{how}{_after(request)}")


def _by_engine(
    request: JoinedRequest, status: int | None, *, engine_down: Callable[[JoinedRequest], bool]
) -> str | None:
    """Say how it is known that the engine failed a request; ``None`` where that is not known."""
    is_clients = status is not None and _BAD_REQUEST <= status < _SERVER_ERROR
    if not is_clients and any(part.finish_reason == "error" for part in request.engines):
        return "and the engine ended it with an error"
    named = next((edge.error for edge in request.edges if _names_an_engine(edge.error)), None)
    if named is not None:
        return f"because of {named}"
    if status is not None and status < _BAD_REQUEST:
        return "with an error instead of tokens"
    if (status is None or status >= _SERVER_ERROR) and engine_down(request):
        return "while the engine stood still or began again"
    return None


def _names_an_engine(error: str | None) -> bool:
    return error is not None and error.rpartition(".")[2] in _ENGINE_ERRORS


def _with(status: int | None) -> str:
    return "" if status is None else f" with {status}"


def _after(request: JoinedRequest) -> str:
    return "" if request.duration_s is None else f" after {in_seconds(request.duration_s)}"
