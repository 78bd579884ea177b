"""The sidecar itself: an alert that cannot fire is worse than none."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import ENGINE, JOB, SERVER
from vllm_observe.alerts.rule import Alert, Board, Group, Severity
from vllm_observe.alerts.views import NO_METRICS, failing, loading, unreachable

__all__ = ["observer"]


def observer(options: RuleOptions) -> Group:
    """Return the rules about the sidecar."""
    scope = options.scope

    def rate(counter: str, *matchers: str) -> str:
        return f"sum by ({SERVER}) (rate({scope(counter, *matchers)}[10m]))"

    def enough(counter: str, window: str) -> str:
        grown = f"sum by ({SERVER}) (increase({scope(counter)}[{window}]))"
        return f"{grown} >= {thresholds.JUDGED_MIN_REQUESTS}"

    build = scope("vllm_observe_build_info")
    success = scope("vllm_observe_scrape_success")
    has_log = f"and on ({SERVER}) {scope('vllm_observe_log_lag_seconds')}"
    log = scope("vllm_observe_log_lines_total")
    lines, unparsed = rate("vllm_observe_log_lines_total"), rate("vllm_observe_log_unparsed_total")
    both = rate("vllm_observe_join_closed_total", 'parts="both"')
    engine_only = rate("vllm_observe_join_closed_total", 'parts="engine"')
    dropped = f"sum by ({SERVER}, reason) (increase({scope('vllm_observe_dropped_total')}[10m]))"
    return Group(
        "observer",
        (
            Alert(
                name="VLLMObserveDown",
                expr=f"max by ({SERVER}) ({scope('up')}) == 0\n"
                # That target and no other: a job of sidecars is known by any of them.
                f"and on ({JOB}) last_over_time({build}[7d])",
                hold=120,
                severity=Severity.CRITICAL,
                summary="{where}: the sidecar cannot be scraped",
                description="Nobody watches this vLLM now. First see whether the sidecar's process lives, then "
                "its log.",
                board=Board.SIDECAR,
            ),
            Alert(
                name="VLLMObserveScrapeFailing",
                expr=f"max by ({SERVER}) ({success}) == 0\n"
                # Of these others tell.
                f"unless on ({SERVER}) ({unreachable(scope)})\n"
                f"unless on ({SERVER}) {failing(scope, NO_METRICS)}\n"
                f"unless on ({SERVER}) {loading(success)}",
                hold=120,
                severity=Severity.WARNING,
                summary="{where}: vLLM's /metrics is there and cannot be read",
                description="First see the reason in vllm_observe_scrape_failures_total: auth, http_server, "
                "malformed; vllm-observe status says the same with its mend.",
                board=Board.SIDECAR,
            ),
            Alert(
                name="VLLMObserveRequestLogSilent",
                expr=f"sum by ({SERVER}) (increase({scope('vllm:request_success_total')}[5m])) > 0\n"
                f"and on ({SERVER}) {enough('vllm:request_success_total', '15m')}\n"
                f"unless on ({SERVER}) sum by ({SERVER}) (increase({log}[5m])) > 0\n"
                f"{has_log}",
                hold=300,
                severity=Severity.WARNING,
                summary="{where}: vLLM finishes requests and the request log says nothing",
                description="Causes, disconnects and clients are unknown meanwhile. First see whether the app "
                "still writes, and whether the path still matches what it writes.",
                board=Board.SIDECAR,
            ),
            Alert(
                name="VLLMObserveJoinCoverageLow",
                expr=f"{both} / ({both} + {engine_only} > 0) < {thresholds.JOIN_COVERAGE_LOW}\n"
                f"and on ({SERVER}) {enough('vllm_observe_join_closed_total', '10m')}\n"
                f"{has_log}",
                hold=900,
                severity=Severity.WARNING,
                summary="{where}: only {percent} of the engine's requests are in the request log",
                description="Whose the others are is unknown. First see whether each client sends its "
                "X-Request-Id and logs it, and whether one of them goes past the log.",
                board=Board.SIDECAR,
            ),
            Alert(
                name="VLLMObserveUnparsedLines",
                expr=f"{unparsed} / ({lines} > 0) > {thresholds.UNPARSED_HIGH}",
                hold=600,
                severity=Severity.WARNING,
                summary="{where}: {percent} of the request log's lines cannot be read",
                description="First see the reason in vllm_observe_log_unparsed_total; the sidecar's log shows "
                "the shape of such a line, without its contents.",
                board=Board.SIDECAR,
            ),
            Alert(
                name="VLLMObserveDropping",
                expr=f"{dropped} > 0",
                hold=600,
                severity=Severity.WARNING,
                summary="{where}: the sidecar cuts off what is over a bound ({{ $labels.reason }})",
                description="Counts are right, details are missing. First see the bound in question; raise it, "
                "or find who sends so many different values.",
                board=Board.SIDECAR,
            ),
            Alert(
                name="VLLMObserveLimitsUnknown",
                expr=f"max by ({ENGINE}) ({scope('vllm:num_requests_running')})\n"
                f"unless on ({ENGINE}) {scope('vllm_observe_max_num_seqs')}\n"
                f"and on ({SERVER}) {build}",
                hold=600,
                severity=Severity.INFO,
                summary="{engine}: max_num_seqs is not known",
                description="The alerts about sequence slots cannot fire. First set max_num_seqs "
                "(--max-num-seqs) as vLLM has it, or name its log (engine_log).",
                board=Board.SIDECAR,
            ),
        ),
    )
