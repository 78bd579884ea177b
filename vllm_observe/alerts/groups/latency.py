"""Time to first token, time between tokens, and throughput, against the target and against the usual."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import ENGINE, MODEL, Scope, mean, quantile
from vllm_observe.alerts.rule import Alert, Board, Group, Recording, Severity
from vllm_observe.model import ServiceClass

__all__ = ["latency"]

_NOW = "[10m]"
_LATELY = "[5m]"
#: What is usual: long enough to hold a lunch break, and without the trouble of now.
_USUAL = "[6h] offset 30m"
_TTFT = "vllm:time_to_first_token_seconds"
_ITL = "vllm:inter_token_latency_seconds"


def latency(options: RuleOptions) -> Group:
    """Return the rules about what a reader waits for."""
    return Group(
        "latency",
        (
            *_throughput(options.scope),
            *(alert for name in options.classes for alert in _over_target(options, name)),
            _ttft_surge(options.scope),
            _throughput_collapse(options.scope),
            *_below_promise(options),
        ),
    )


def _over_target(options: RuleOptions, service_class: ServiceClass) -> tuple[Alert, ...]:
    targets, scope = options.targets[service_class], options.scope
    only = options.of_class(service_class)
    return (
        Alert(
            name="VLLMTimeToFirstTokenHigh",
            expr=f"{_slow(_TTFT, scope, targets.ttft)}{only}\n"
            f"and on ({MODEL}) {_judged(_TTFT, scope, '[5m]')}",
            hold=300,
            severity=Severity.WARNING,  # a burning budget pages
            summary="{model} on {where}: the time to first token is {seconds} (p95, or the mean)",
            description=f"The target of {service_class.value} servers is {targets.ttft:g} s. First see which "
            "cause the slow requests have (vllm_observe_slow_requests_total by cause): the queue, long "
            "prompts, or nothing of the engine's.",
            board=Board.REQUESTS,
            requests=(("slower_than", f"{targets.ttft:g}"),),
            keep_firing=300,
            service_class=service_class,
        ),
        Alert(
            name="VLLMInterTokenLatencyHigh",
            expr=f"{_slow(_ITL, scope, targets.tpot)}{only}\nand on ({MODEL}) {_judged(_ITL, scope, '[5m]')}",
            hold=300,
            severity=Severity.WARNING,
            summary="{model} on {where}: the time between tokens is {seconds} (p95, or the mean)",
            description=f"The target of {service_class.value} servers is {targets.tpot:g} s. First see the "
            "batch (running requests, tokens of a step), then the GPU: clocks, temperature, other processes.",
            board=Board.ENGINE,
            keep_firing=300,
            service_class=service_class,
        ),
    )


def _slow(histogram: str, scope: Scope, target: float) -> str:
    """Models whose p95 is over a target in seconds.

    No quantile is over the last bound of its buckets: that of old vLLMs is below some targets. There the mean
    tells, which is over the target later than p95 is.
    """
    p95, average = quantile(0.95, histogram, scope, MODEL, _LATELY), mean(histogram, scope, MODEL, _LATELY)
    return f"({p95} > {target}\nor {average} > {target})"


def _judged(histogram: str, scope: Scope, window: str) -> str:
    """Models of which enough was observed for a quantile or a mean to say something."""
    count = scope(histogram + "_count")
    return f"sum by ({MODEL}) (increase({count}{window})) >= {thresholds.JUDGED_MIN_REQUESTS}"


def _ttft_surge(scope: Scope) -> Alert:
    now, usual = (mean(_TTFT, scope, MODEL, window) for window in (_NOW, _USUAL))
    return Alert(
        name="VLLMTimeToFirstTokenSurge",
        expr=f"{now} > {thresholds.TTFT_SURGE_FACTOR} * ({usual})\n"
        f"and on ({MODEL}) {now} > {thresholds.TTFT_SURGE_FLOOR_S}\n"
        f"and on ({MODEL}) {_judged(_TTFT, scope, _NOW)}\n"
        f"and on ({MODEL}) {_judged(_TTFT, scope, _USUAL)}",
        hold=300,
        severity=Severity.WARNING,
        summary="{model} on {where}: the time to first token jumped to {seconds}, on average",
        description=f"That is over {thresholds.TTFT_SURGE_FACTOR:g} times the mean of the six hours before. "
        "First see what changed: traffic, prompt length, the prefix cache's hit rate, a deployment.",
        board=Board.ENGINE,
        keep_firing=300,
    )


# Not one rate over six hours: where there is less of a history, it would be the less for that.
_GENERATED = "vllm_observe:generation_tokens:rate5m"
_PACE = "vllm_observe:generation_tokens_per_running_request:rate5m"


def _throughput(scope: Scope) -> tuple[Recording, ...]:
    """Tokens a second, of an engine and of each of its running requests; the latter absent where none ran."""
    tokens = f"sum by ({ENGINE}) (rate({scope('vllm:generation_tokens_total')}{_LATELY}))"
    return (
        Recording(name=_GENERATED, expr=tokens),
        Recording(name=_PACE, expr=f"{tokens} / ({_held(scope)} > 0)"),
    )


def _throughput_collapse(scope: Scope) -> Alert:
    return Alert(
        name="VLLMThroughputCollapse",
        expr=f"{_PACE} < {thresholds.THROUGHPUT_COLLAPSE} * avg_over_time({_PACE}{_USUAL})\n"
        # A larger batch slows each of its requests on a healthy GPU too, but makes more tokens in all.
        f"and on ({ENGINE}) {_GENERATED} < max_over_time({_GENERATED}{_USUAL})\n"
        f"and on ({ENGINE}) {_held(scope)} >= 1",
        hold=300,
        severity=Severity.WARNING,
        summary="{engine}: {number} tokens a second for each running request",
        description="That is far below its mean of the six hours before, and not for a larger batch. First see "
        "the GPU (clocks, temperature, XID errors, other processes), then whether requests are preempted.",
        board=Board.ENGINE,
        keep_firing=300,
    )


def _held(scope: Scope) -> str:
    return f"max by ({ENGINE}) (avg_over_time({scope('vllm:num_requests_running')}{_LATELY}))"


def _below_promise(options: RuleOptions) -> tuple[Alert, ...]:
    promise, scope = options.tokens_per_second, options.scope
    if promise is None:
        return ()
    tokens = f"sum by ({MODEL}) (rate({scope('vllm:generation_tokens_total')}{_NOW}))"
    # Without a queue the load, not the server, makes it few.
    waiting = f"sum by ({MODEL}) (min_over_time({scope('vllm:num_requests_waiting')}{_NOW}))"
    return (
        Alert(
            name="VLLMThroughputBelowTarget",
            expr=f"{tokens} < {promise:g}\nand on ({MODEL}) {waiting} > 0",
            hold=600,
            severity=Severity.WARNING,
            summary="{model} on {where}: {number} generated tokens a second while requests wait",
            description=f"The target is {promise:g} tokens a second. First see the tokens of a step and the "
            "share of them that is prefill; then preemptions and the GPU.",
            board=Board.ENGINE,
            keep_firing=300,
        ),
    )
