"""What Prometheus sees of a healthy server under load, and what can be changed about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vllm_observe.alerts.proofs.course import Course, Page, counter, gauge
from vllm_observe.model import ServiceClass

__all__ = [
    "HEALTHY",
    "PER_S",
    "PLAIN",
    "SLOTS",
    "changed",
    "ended",
    "from_instance",
    "histogram",
    "http",
    "own",
    "target_info",
    "vllm",
    "within",
]

#: Requests a second that a healthy server serves.
PER_S = 2.0
#: What it was started with: ``--max-num-seqs 8``.
SLOTS = 8
_TARGET = 'job="vllm",instance="a:9809"'
_MODEL = f'{_TARGET},model_name="llama"'


def vllm(name: str, labels: str = "", *, engine: str = "0") -> str:
    """Name a series of vLLM's."""
    rank = f'engine="{engine}"' if engine else ""  # V0 has no such label
    return f"vllm:{name}{{{_joined(_MODEL, rank, labels)}}}"


def own(name: str, labels: str = "", *, of: str = "server") -> str:
    """Name a series of the sidecar's own, of its server, of a model or of an engine."""
    known = {"server": _TARGET, "model": _MODEL, "engine": f'{_MODEL},engine="0"'}[of]
    return f"vllm_observe_{name}{{{_joined(known, labels)}}}"


def http(status: str) -> str:
    """Name the series that counts vLLM's answers of a status."""
    labels = f'{_TARGET},handler="/v1/chat/completions",method="POST",status="{status}"'
    return f"http_requests_total{{{labels}}}"


def _joined(*labels: str) -> str:
    return ",".join(filter(None, labels))


def target_info(service_class: ServiceClass) -> str:
    """Name the series that says a server's class."""
    return own("target_info", f'service_class="{service_class.value}"')


def histogram(
    series: str,
    shares: Mapping[float, float],
    *,
    rates: Iterable[tuple[int, float]] = ((0, PER_S),),
    mean: Iterable[tuple[int, float]] = ((0, 0.2),),
) -> Page:
    """A histogram's series.

    Args:
        series: its name with its labels, without a suffix.
        shares: the share of the observations at or below each bound.
        rates: observations a second, each from a second on.
        mean: of what is observed, each from a second on.
    """
    name, _, labels = series.removesuffix("}").partition("{")
    rate = tuple(rates)
    buckets = {
        f'{name}_bucket{{{labels},le="{bound}"}}': counter(*((at, share * per_s) for at, per_s in rate))
        for bound, share in {**shares, float("inf"): 1.0}.items()
    }
    named = {text.replace('le="inf"', 'le="+Inf"'): course for text, course in buckets.items()}
    (_, per_s), *_ = rate
    return {
        **named,
        f"{name}_count{{{labels}}}": counter(*rate),
        f"{name}_sum{{{labels}}}": counter(*((at, per_s * value) for at, value in mean)),
    }


def within(quantile: float, value: float, bounds: Iterable[float]) -> dict[float, float]:
    """Shares at or below the two bounds around a value, so that a quantile is exactly it.

    Prometheus takes the observations of a bucket to lie evenly between its bounds.
    """
    known = sorted(bounds)
    lower, upper = max(b for b in known if b < value), min(b for b in known if b >= value)
    depth = (value - lower) / (upper - lower)
    if depth < quantile:
        return {lower: (quantile - depth) / (1 - depth), upper: 1.0}
    return {lower: 0.0, upper: quantile / depth}


_TTFT = {0.1: 0.2, 0.5: 0.95, 2.5: 1.0, 30.0: 1.0}


def _engine() -> Page:
    gauges = {"num_requests_running": 4, "num_requests_waiting": 0, "kv_cache_usage_perc": 0.5}
    counters = {
        "num_preemptions_total": 0.0,
        "prompt_tokens_total": 2000.0,
        "generation_tokens_total": 400.0,
        "prefix_cache_queries_total": 2000.0,
        "prefix_cache_hits_total": 1000.0,
        "corrupted_requests_total": 0.0,
    }
    return {
        **{vllm(name): gauge(value) for name, value in gauges.items()},
        **{vllm(name): counter(rate) for name, rate in counters.items()},
        vllm("num_requests_waiting_by_reason", 'reason="capacity"'): gauge(0),
        vllm("request_success_total", 'finished_reason="stop"'): counter(PER_S),
        vllm("engine_sleep_state", 'sleep_state="awake"'): gauge(1),
        **histogram(vllm("time_to_first_token_seconds"), _TTFT),
        **histogram(vllm("inter_token_latency_seconds"), {0.025: 0.9, 0.05: 1.0}, mean=((0, 0.02),)),
        **histogram(vllm("request_queue_time_seconds"), {0.3: 1.0}, mean=((0, 0.01),)),
    }


def _outcomes() -> Page:
    outcomes = {"ok": PER_S, "error": 0.0, "timeout": 0.0, "rejected": 0.0, "abort": 0.0}
    return {
        own("requests_total", f'profile="assistant",outcome="{outcome}"', of="model"): counter(rate)
        for outcome, rate in outcomes.items()
    }


#: A sidecar's page.
HEALTHY: Page = {
    f"up{{{_TARGET}}}": gauge(1),
    **_engine(),
    **_outcomes(),
    own("slow_requests_total", 'profile="assistant",cause="client_error"', of="model"): counter(0),
    **histogram(own("request_ttft_seconds", 'profile="assistant"', of="model"), _TTFT),
    own("build_info"): gauge(1),
    target_info(ServiceClass.INTERACTIVE): gauge(1),
    own("scrape_success"): gauge(1),
    **{
        own("scrape_failures_total", f'reason="{reason}"'): counter(0)
        for reason in ("connection", "timeout", "http_server", "no_vllm_metrics")
    },
    own("max_num_seqs", of="engine"): gauge(SLOTS),
    own("sequence_utilization_ratio", of="engine"): gauge(0.5),
    own("engine_stalled", of="engine"): gauge(0),
    own("engine_answers_without_tokens"): gauge(0),
    own("engine_restarts_total"): counter(0),
    own("log_lag_seconds"): gauge(0),
    own("log_lines_total"): counter(PER_S),
    own("log_unparsed_total", 'reason="not_json"'): counter(0),
    own("join_closed_total", 'parts="both"'): counter(PER_S),
    own("join_closed_total", 'parts="engine"'): counter(0),
    own("dropped_total", 'reason="label_cap"'): counter(0),
}

#: A new vLLM's own page.
PLAIN: Page = {
    f"up{{{_TARGET}}}": gauge(1),
    f"process_start_time_seconds{{{_TARGET}}}": gauge(1000),
    http("2xx"): counter(PER_S),
    http("5xx"): counter(0),
    **_engine(),
}


def changed(page: Page, changes: Mapping[str, Course | None]) -> Page:
    """Return a page with some series in the place of its own; ``None`` takes one away."""
    return {name: course for name, course in {**page, **changes}.items() if course is not None}


def ended(page: Page, at: int, *, names: str = "") -> Page:
    """Return those series of a page whose names begin so, without anything from a second on."""
    return {name: course.until(at) for name, course in page.items() if name.startswith(names)}


def from_instance(page: Page, instance: str) -> Page:
    """Return a page as another server of the same job gives it."""
    return {
        name.replace('instance="a:9809"', f'instance="{instance}"'): course for name, course in page.items()
    }
