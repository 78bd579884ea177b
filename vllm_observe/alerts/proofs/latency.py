"""Time to first token, time between tokens, and throughput."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, gauge
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, histogram, target_info, vllm, within
from vllm_observe.alerts.proofs.proof import Proof, over, under, warning
from vllm_observe.model import ServiceClass

__all__ = ["LATENCY", "PROMISED", "TOKENS", "beyond_buckets", "of_class", "p95", "surge"]

#: Bounds of vLLM's around the targets, in seconds.
_BOUNDS = (0.01, 0.05, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0)
#: When all that was usual ends.
_THEN = 3600
TOKENS = vllm("generation_tokens_total")
_TOKENS_PER_S = 400.0
#: The generated tokens a second for which an optional rule is proven.
PROMISED = 300.0
#: Just too few requests to be judged.
_FEW = under(thresholds.JUDGED_MIN_REQUESTS)


def of_class(service_class: ServiceClass) -> dict[str, Course | None]:
    """A server of a class."""
    return {target_info(ServiceClass.INTERACTIVE): None, target_info(service_class): gauge(1)}


def p95(name: str, seconds: float, *, per_s: float = PER_S) -> dict[str, Course | None]:
    """A histogram of vLLM's whose p95 is exactly that."""
    return {
        **dict.fromkeys(series for series in HEALTHY if series.startswith(f"vllm:{name}_bucket")),
        **histogram(
            vllm(name), within(0.95, seconds, _BOUNDS), rates=((0, per_s),), mean=((0, seconds / 2),)
        ),
    }


def beyond_buckets(name: str, mean: float) -> dict[str, Course | None]:
    """A histogram of vLLM's whose buckets all end below what is observed: on average so many seconds."""
    return {
        **dict.fromkeys(series for series in HEALTHY if series.startswith(f"vllm:{name}_bucket")),
        **histogram(vllm(name), {_BOUNDS[0]: 0.0}, mean=((0, mean),)),
    }


def surge(usual: float, now: float, *, per_s: tuple[float, float] = (PER_S, PER_S)) -> Page:
    """The time to first token, on average in seconds, and how many there are: for an hour, and then."""
    before, then = per_s
    return {
        vllm("time_to_first_token_seconds_count"): counter(before, (_THEN, then)),
        vllm("time_to_first_token_seconds_sum"): counter(before * usual, (_THEN, then * now)),
    }


def _pace(factor: float) -> Page:
    return {TOKENS: counter(_TOKENS_PER_S, (_THEN, _TOKENS_PER_S * factor))}


def _hardly_any_running() -> Page:
    """A short request now and then: most samples of the gauge fall between two of them."""
    samples = range(_THEN, _THEN + 1200, STEP)
    return {
        **_pace(0.01),
        vllm("num_requests_running"): gauge(4, *((at, int(at % (3 * STEP) == 0)) for at in samples)),
    }


def _below_promise(tokens_per_s: float, *, waiting: int = 1) -> Page:
    return {TOKENS: counter(tokens_per_s), vllm("num_requests_waiting"): gauge(waiting)}


def _over_targets(service_class: ServiceClass) -> tuple[Proof, ...]:
    server, targets = of_class(service_class), thresholds.TARGETS[service_class]
    judged = (
        ("VLLMTimeToFirstTokenHigh", "time_to_first_token_seconds", targets.ttft),
        ("VLLMInterTokenLatencyHigh", "inter_token_latency_seconds", targets.tpot),
    )
    return tuple(
        Proof(
            rule=warning(alert, service_class=service_class.value),
            onset=STEP,
            fires={**server, **p95(name, over(target))},
            quiet={**server, **p95(name, under(target))},
            guarded={
                "for want of requests": p95(name, over(target), per_s=_FEW / 300),
                "on a server of another class": {
                    **of_class(next(other for other in ServiceClass if other is not service_class)),
                    target_info(service_class): None,
                },
            },
        )
        for alert, name, target in judged
    )


_USUAL_S = thresholds.TTFT_SURGE_FLOOR_S / 2
_JUMPED_S = thresholds.TTFT_SURGE_FACTOR * _USUAL_S

LATENCY = (
    *(proof for service_class in ServiceClass for proof in _over_targets(service_class)),
    Proof(
        rule=warning("VLLMTimeToFirstTokenSurge"),
        onset=_THEN + 600 - STEP,
        fires=surge(_USUAL_S, over(_JUMPED_S)),
        quiet=surge(_USUAL_S, under(_JUMPED_S)),
        guarded={
            "for want of requests now": surge(_USUAL_S, over(_JUMPED_S), per_s=(PER_S, _FEW / 600)),
            "for want of requests before": surge(_USUAL_S, over(_JUMPED_S), per_s=(_FEW / _THEN, PER_S)),
        },
    ),
    Proof(
        rule=warning("VLLMThroughputCollapse"),
        onset=_THEN + 300 - STEP,
        # The usual pace is a mean of rates, and the first of them saw less than their window: 7 % too low.
        fires=_pace(0.9 * thresholds.THROUGHPUT_COLLAPSE),
        quiet=_pace(over(thresholds.THROUGHPUT_COLLAPSE)),
        guarded={"for want of load": _hardly_any_running()},
    ),
    Proof(
        rule=warning("VLLMThroughputBelowTarget"),
        onset=STEP,
        fires=_below_promise(under(PROMISED)),
        quiet=_below_promise(over(PROMISED)),
        guarded={"for want of load": _below_promise(under(PROMISED), waiting=0)},
    ),
)
