"""How requests ended: what is the service's fault, and what is its client's.

The joined log tells. Of servers whose sidecar joins no requests, since it has no log, vLLM's own counters
tell as much as they know.
"""

from __future__ import annotations

from vllm_observe.alerts.promql import MODEL, SERVER, SERVICE, Scope, counted

__all__ = ["INFERENCE", "STATUS_5XX", "abandoned", "asked", "attempted", "failed", "told_by"]

_REQUESTS = "vllm_observe_requests_total"
_CAUSES = "vllm_observe_slow_requests_total"
_ANSWERS = "http_requests_total"
_FAILED, _ABANDONED = 'outcome=~"error|timeout|rejected"', 'outcome="abort"'
_NOT_ABANDONED = 'outcome!="abort"'
_CLIENT_ERROR, _NO_CLIENT_ERROR = 'cause="client_error"', 'status!="4xx"'
#: The paths of the API, as ``http_requests_total`` names them, and the answers that are the server's fault.
INFERENCE = 'handler=~"/v1/.*"'
STATUS_5XX = 'status="5xx"'


def failed(scope: Scope, window: str) -> str:
    """Return how many requests failed through no fault of their clients within a window, by service."""
    log = f"{_ended(scope, window, _FAILED)} - {_clients_fault(scope, window)}"
    return told_by(scope, window, log=log, vllm=_answered(scope, window, STATUS_5XX))


def attempted(scope: Scope, window: str) -> str:
    """Return how many requests the service could have answered well within a window.

    Those that a client asked wrongly, or left before their end, are neither its fault nor its success.
    """
    log = f"{_ended(scope, window, _NOT_ABANDONED)} - {_clients_fault(scope, window)}"
    return told_by(scope, window, log=log, vllm=_answered(scope, window, _NO_CLIENT_ERROR))


def abandoned(scope: Scope, window: str) -> str:
    """Return how many requests' clients left before the end, by service; vLLM cannot tell."""
    return f"sum by ({SERVICE}) ({counted(scope, window, _REQUESTS, _ABANDONED)})"


def asked(scope: Scope, window: str) -> str:
    """Return how many requests of the log ended within a window, however they did, by service."""
    return f"sum by ({SERVICE}) ({counted(scope, window, _REQUESTS)})"


def told_by(scope: Scope, window: str, *, log: str, vllm: str, only: str = "") -> str:
    """Return a number by service, as the joined log tells it or, of servers without one, vLLM.

    Args:
        scope: the targets.
        window: in which a request of the log tells that there is one.
        log: the number by model and server, from the joined log.
        vllm: the same from vLLM's own counters.
        only: what keeps some of the servers, as ``RuleOptions.of_class`` gives it.
    """
    joined = f"sum by ({SERVER}) (last_over_time({scope(_REQUESTS)}[{window}])) > 0"
    either = f"{vllm}\nunless on ({SERVER}) {joined}\nor {log}\nand on ({SERVER}) {joined}"
    return f"sum by ({SERVICE}) ({f'({either}){only}' if only else either})"


def _ended(scope: Scope, window: str, outcome: str) -> str:
    return f"sum by ({MODEL}) ({counted(scope, window, _REQUESTS, outcome)})"


def _clients_fault(scope: Scope, window: str) -> str:
    return f"sum by ({MODEL}) ({counted(scope, window, _CAUSES, _CLIENT_ERROR)})"


def _answered(scope: Scope, window: str, status: str) -> str:
    """How many of a server's answers had a status; they name no model: it is the one that the server serves."""
    # A status has no series before its first answer: of those that answered otherwise, there are none of it.
    none = f"0 * rate({scope(_ANSWERS, INFERENCE)}[{window}])"
    answers = f"sum by ({SERVER}) ({counted(scope, window, _ANSWERS, INFERENCE, status)} or {none})"
    served = f"group by ({MODEL}) (last_over_time({scope('vllm:num_requests_running')}[{window}]))"
    return f"{answers} * on ({SERVER}) group_right () {served}"
