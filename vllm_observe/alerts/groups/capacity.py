"""Slots, KV cache and the queue: what fills up before users notice."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import ENGINE, MODEL, Scope, grew, mean
from vllm_observe.alerts.rule import Alert, Board, Group, Severity
from vllm_observe.alerts.views import view_for

__all__ = ["capacity"]

# vLLM takes its gauges after finished requests have left, so that a full engine of 8 slots now and then
# shows 7: the highest of the last samples is what it holds, and their mean tells it from a burst.
_LATELY = "2m"
#: The mean of a gauge that is above 0 more often than not: one sample of 0 is no relief.
_MOSTLY = 0.5


def capacity(options: RuleOptions) -> Group:
    """Return the rules about what an engine can hold."""
    scope = options.scope
    highest, mean_use = (
        view_for(options).utilization(over, _LATELY) for over in ("max_over_time", "avg_over_time")
    )
    usage = scope("vllm:kv_cache_usage_perc")
    preempted, finished = (
        f"sum by ({ENGINE}) (rate({scope(name)}[5m]))"
        for name in ("vllm:num_preemptions_total", "vllm:request_success_total")
    )
    queue = mean("vllm:request_queue_time_seconds", scope, ENGINE, "[5m]")
    return Group(
        "capacity",
        (
            Alert(
                name="VLLMSequenceSlotsNearLimit",
                expr=f"{mean_use} >= {thresholds.SLOTS_NEAR_LIMIT}",
                hold=600,
                severity=Severity.WARNING,
                summary="{engine}: {percent} of the sequence slots are taken",
                description="Running requests are near max_num_seqs; the next burst will queue. "
                "First see whether KV cache is left: if so, raise --max-num-seqs, otherwise add a replica.",
                board=Board.ENGINE,
                keep_firing=300,
            ),
            Alert(
                name="VLLMSequenceSlotsExhausted",
                expr=f"{highest} >= {thresholds.SLOTS_EXHAUSTED}\n"
                f"and on ({ENGINE}) {mean_use} >= {thresholds.SLOTS_NEAR_LIMIT}\n"
                f"and on ({ENGINE}) {_waiting(scope)} > {_MOSTLY}",
                hold=300,
                severity=Severity.CRITICAL,
                summary="{engine}: every sequence slot is taken and requests wait",
                description="New requests wait for a slot, so their first token is late. First see who sends "
                "the load (vllm-observe sessions); then shed it, raise --max-num-seqs while KV cache is left, "
                "or add a replica.",
                board=Board.ENGINE,
                requests=(("cause", "queue_slots"),),
                keep_firing=120,
            ),
            Alert(
                name="VLLMKVCacheNearFull",
                expr=f"max by ({ENGINE}) (avg_over_time({usage}[{_LATELY}])) > {thresholds.KV_NEAR_FULL}",
                hold=300,
                severity=Severity.WARNING,
                summary="{engine}: {percent} of the KV cache is in use",
                description="The next long prompt or answer may find no block: requests wait or are preempted. "
                "First see whether preemptions began; then shorten contexts, lower --max-num-seqs, or add "
                "memory or a replica.",
                board=Board.ENGINE,
                requests=(("cause", "queue_kv"),),
                keep_firing=120,
            ),
            Alert(
                name="VLLMKVCacheThrashing",
                expr=f"max by ({ENGINE}) (max_over_time({usage}[{_LATELY}])) > {thresholds.KV_FULL}\n"
                f"and on ({ENGINE}) {preempted} > {thresholds.PREEMPTIONS_HIGH} * ({finished})",
                hold=600,
                severity=Severity.CRITICAL,
                summary="{engine}: the KV cache is full ({percent}) and requests are preempted",
                description="Preempted requests lose their work and compute it again: throughput falls while "
                "load stays. First lower the load or --max-num-seqs; then look for the sessions with the "
                "longest contexts.",
                board=Board.ENGINE,
                requests=(("cause", "preempted"),),
                keep_firing=300,
            ),
            *(
                Alert(
                    name="VLLMQueueTimeHigh",
                    expr=f"{queue} > {limit}",
                    hold=300,
                    severity=severity,
                    summary="{engine}: requests waited {seconds} in the queue, on average",
                    description="Requests arrive faster than they are served. First see what they wait for "
                    "(vllm_observe_binding_limit: slots, KV cache or the step's tokens).",
                    board=Board.ENGINE,
                    keep_firing=300,
                )
                for severity, limit in (
                    (Severity.WARNING, thresholds.QUEUE_TIME_HIGH_S),
                    (Severity.CRITICAL, thresholds.QUEUE_TIME_CRITICAL_S),
                )
            ),
            Alert(
                name="VLLMAdmissionRejections",
                expr=f"sum by ({MODEL}, reason) ({grew('vllm:admission_rejections_total', scope, '10m')}) > 0",
                hold=0,
                severity=Severity.WARNING,
                summary="{model} on {where}: vLLM turned requests away ({{ $labels.reason }})",
                description="A queue limit was reached and clients got an error at once. First see whether the "
                "limit is meant to be that low, then what fills the queue.",
                board=Board.ENGINE,
                requests=(("outcome", "rejected"),),
                keep_firing=300,
            ),
        ),
    )


def _waiting(scope: Scope) -> str:
    """Requests that wait for capacity; before vLLM 0.20, which tells no reasons, all that wait."""
    by_reason = scope("vllm:num_requests_waiting_by_reason", 'reason="capacity"')
    either = (by_reason, scope("vllm:num_requests_waiting"))
    return (
        "(" + " or ".join(f"max by ({ENGINE}) (avg_over_time({gauge}[{_LATELY}]))" for gauge in either) + ")"
    )
