"""Servers that are gone, hung, or answer without serving; requests that fail or are given up."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.outcomes import INFERENCE, STATUS_5XX, abandoned, asked, attempted, failed
from vllm_observe.alerts.promql import ENGINE, JOB, MODEL, SERVER, SERVICE, Scope, counted, grew
from vllm_observe.alerts.rule import Alert, Board, Group, Recording, Severity
from vllm_observe.alerts.views import view_for

__all__ = ["availability"]

_ENOUGH = thresholds.JUDGED_MIN_REQUESTS


def availability(options: RuleOptions) -> Group:
    """Return the rules about servers that do not serve."""
    return Group(
        "availability",
        (
            *_servers(options),
            *(_requests(options.scope) if options.behind_sidecar else _http_errors(options.scope)),
        ),
    )


def _servers(options: RuleOptions) -> tuple[Alert, ...]:
    view, scope = view_for(options), options.scope
    return (
        Alert(
            name="VLLMTargetDown",
            expr=view.down(),
            hold=60,
            severity=Severity.CRITICAL,
            summary="{where}: vLLM cannot be reached",
            description="It was up and does not answer any more, or did not come up in time. First see whether "
            "its process lives and what its log says last.",
            board=Board.OVERVIEW,
        ),
        Alert(
            name="VLLMTargetGone",
            expr=_gone(scope, "15m"),
            hold=120,
            severity=Severity.WARNING,
            summary="{model} on {where}: vLLM is gone, with requests running",
            description="The target left Prometheus's list while it had work: it was not drained. First see "
            "what removed it: the scheduler, an eviction, a node that failed.",
            board=Board.OVERVIEW,
        ),
        Alert(
            name="VLLMTargetGone",
            expr=f"{_gone(scope, '6h')}\nunless on ({SERVICE}) {scope('vllm:num_requests_running')}",
            hold=120,
            severity=Severity.CRITICAL,
            summary="{model}: its last server, {where}, is gone, with requests running",
            description="Nobody serves this model any more. First see what removed the servers: a scale to "
            "zero under load, a deployment without overlap, a selector that finds nothing.",
            board=Board.OVERVIEW,
        ),
        Alert(
            name="VLLMAllTargetsGone",
            # Those of a job that have none left, whether they had work or not; over a weekend too.
            expr=f"count by ({JOB}) (max by ({SERVER}) (last_over_time({scope('vllm:num_requests_running')}[3d])))\n"
            f"unless on ({JOB}) {scope('up')}",
            hold=900,
            severity=Severity.WARNING,
            summary="{{ $labels.job }}: none of its {count} servers of the last three days is a target any more",
            description="They may serve and nobody watches them, or have been scaled to zero. First see "
            "Prometheus's service discovery, with the targets that it dropped; then whether they run.",
            board=Board.OVERVIEW,
        ),
        Alert(
            name="VLLMMetricsMissing",
            expr=view.without_metrics(),
            hold=300,
            severity=Severity.WARNING,
            summary="{where}: /metrics answers without vLLM's metrics",
            description="Every other alert about this server is blind. First see whether it was started with "
            "--disable-log-stats, and whether the address is vLLM's and not a proxy's.",
            board=Board.SIDECAR,
        ),
        Alert(
            name="VLLMEngineStalled",
            expr=view.stalled(),
            hold=60,
            severity=Severity.CRITICAL,
            summary="{engine}: requests are there and no token comes",
            description="The engine hangs, though /health says 200 and its gauges stand still at their last "
            "values. First take a stack dump (py-spy dump), then restart it.",
            board=Board.ENGINE,
        ),
        Alert(
            name="VLLMAnswersWithoutTokens",
            expr=view.answers_without_tokens(),
            hold=60,
            severity=Severity.CRITICAL,
            summary="{where}: requests are answered 2xx and no token is made",
            description="The engine is dead and its API server answers each request with an error body under "
            "HTTP 200. First send one request by hand and read its body; then restart vLLM.",
            board=Board.OVERVIEW,
            requests=(("outcome", "error"),),
        ),
        Alert(
            name="VLLMEngineRestarting",
            expr=f"{view.restarts('1h')} >= {thresholds.RESTARTS_AN_HOUR}",
            hold=0,
            severity=Severity.WARNING,
            summary="{where}: vLLM restarted {count} times within an hour",
            description="A deployment restarts it once; this is a crash loop. First see the end of the log of "
            "the run before: out of memory, a CUDA error, a failing probe.",
            board=Board.OVERVIEW,
            keep_firing=900,
        ),
        Alert(
            name="VLLMCorruptedRequests",
            expr=f"sum by ({ENGINE}) ({grew('vllm:corrupted_requests_total', scope, '10m')}) > 0",
            hold=0,
            severity=Severity.CRITICAL,
            summary="{engine}: the model gave NaN",
            description="Answers are garbage, though each of them is a 200. First take the server out of "
            "service; then see the weights, the quantisation and the GPU's memory errors.",
            board=Board.ENGINE,
            keep_firing=600,
        ),
    )


def _gone(scope: Scope, window: str) -> str:
    """Servers that left within a window; those that were drained showed no work at the last."""
    return (
        f"sum by ({MODEL}) (last_over_time({scope('vllm:num_requests_running')}[{window}])) > 0\n"
        # One that is only down still has its `up`.
        f"unless on ({SERVER}) {scope('up')}"
    )


_ATTEMPTED = "vllm_observe:attempted_requests:increase5m"
_FAILED = "vllm_observe:failed_requests:increase5m"
_ASKED = "vllm_observe:asked_requests:increase10m"
_ABANDONED = "vllm_observe:abandoned_requests:increase10m"


def _requests(scope: Scope) -> tuple[Recording | Alert, ...]:
    """What becomes of the requests; the rules ask for how many there were more than once."""
    return (
        Recording(name=_ATTEMPTED, expr=attempted(scope, "5m")),
        Recording(name=_FAILED, expr=failed(scope, "5m")),
        Recording(name=_ASKED, expr=asked(scope, "10m")),
        Recording(name=_ABANDONED, expr=abandoned(scope, "10m")),
        Alert(
            name="VLLMRequestErrorsHigh",
            expr=f"{_FAILED} / ({_ATTEMPTED} > 0) > {thresholds.ERRORS_HIGH}\nand {_ATTEMPTED} >= {_ENOUGH}",
            hold=120,
            severity=Severity.CRITICAL,
            summary="{model}: {percent} of the requests fail",
            description="Clients' own mistakes (4xx) and disconnects are not among them. First see the causes: "
            "vllm-observe requests --outcome error; without a request log, vLLM's own log.",
            board=Board.REQUESTS,
            requests=(("outcome", "error"),),
            keep_firing=300,
        ),
        Alert(
            name="VLLMClientDisconnectsHigh",
            expr=f"{_ABANDONED} / ({_ASKED} > 0) > {thresholds.DISCONNECTS_HIGH}\nand {_ASKED} >= {_ENOUGH}",
            hold=300,
            severity=Severity.WARNING,
            summary="{model}: {percent} of the clients left before the end of their answers",
            description="vLLM does not count them. First compare their durations with the time to first token "
            "(vllm-observe requests --outcome abort): people who wait too long, or a timeout that is too short.",
            board=Board.REQUESTS,
            requests=(("outcome", "abort"),),
            keep_firing=300,
        ),
    )


def _http_errors(scope: Scope) -> tuple[Alert, ...]:
    answered = f"sum by ({SERVER}) ({counted(scope, '5m', 'http_requests_total', INFERENCE)})"
    failed = f"sum by ({SERVER}) ({counted(scope, '5m', 'http_requests_total', INFERENCE, STATUS_5XX)})"
    return (
        Alert(
            name="VLLMRequestErrorsHigh",
            expr=f"{failed} / ({answered} > 0) > {thresholds.ERRORS_HIGH}\n"
            f"and on ({SERVER}) {answered} >= {_ENOUGH}",
            hold=120,
            severity=Severity.CRITICAL,
            summary="{where}: {percent} of the answers are 5xx",
            description="Streams that fail after their first byte are not even among them. First see vLLM's log.",
            board=Board.ENGINE,
            keep_firing=300,
        ),
    )
