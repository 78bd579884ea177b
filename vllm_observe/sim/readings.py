"""What the numbers of each signal are, read from a simulated vLLM, by the signal's key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.engine import Engine, State
from vllm_observe.sim.tally import Histogram

__all__ = ["Child", "readings"]

#: The labels of one child of a family, all that any release has, and its value.
Child = tuple[Mapping[str, str], "float | Histogram"]

_TALLIED = (
    *("prompt_tokens", "generation_tokens", "prefix_queries", "prefix_hits", "preemptions"),
    *("step_tokens", "computed_step_tokens", "ttft", "itl", "tpot", "e2e"),
    *("queue_time", "prefill_time", "decode_time", "inference_time"),
    *("request_prompt_tokens", "request_generation_tokens", "request_prefill_tokens"),
    *("request_preemptions", "request_max_tokens", "request_max_generation_tokens", "request_n"),
)

#: What is not simulated, or cannot happen: there, and 0.
_NEVER = (
    *("external_prefix_queries", "external_prefix_hits", "mm_queries", "mm_hits"),
    *("swapped", "cpu_kv_usage", "cpu_prefix_hit_rate", "prompt_tokens_recomputed"),
    *("prompt_throughput", "generation_throughput"),
)


def readings(key: str, deployment: Deployment) -> list[Child]:
    """Return the children of a signal's family; none where the simulation has nothing to tell."""
    if key in _SERVER:
        return list(_SERVER[key](deployment))
    read = _ENGINE.get(key)
    if read is None:
        return []
    return [
        ({"model_name": engine.key.model_name, "engine": engine.key.engine, **labels}, value)
        for engine in deployment.engines
        if engine.state is not State.LOADING
        for labels, value in read(engine)
    ]


# --- Of an engine


def _tallied(key: str) -> Callable[[Engine], Iterable[Child]]:
    get = attrgetter(f"tally.{key}")
    return lambda engine: [({}, get(engine))]


def _one(read: Callable[[Engine], float]) -> Callable[[Engine], Iterable[Child]]:
    return lambda engine: [({}, read(engine))]


def _split(label: str, read: Callable[[Engine], Mapping[str, float]]) -> Callable[[Engine], Iterable[Child]]:
    return lambda engine: [({label: name}, value) for name, value in read(engine).items()]


def _hit_rate(engine: Engine) -> float:
    return engine.tally.prefix_hits / engine.tally.prefix_queries if engine.tally.prefix_queries else -1.0


def _waiting_reasons(engine: Engine) -> dict[str, float]:
    gauges = engine.gauges
    return {"capacity": gauges.waiting - gauges.deferred, "deferred": gauges.deferred}


def _prompt_sources(engine: Engine) -> dict[str, float]:
    cached = engine.tally.cached_tokens
    computed = engine.tally.prompt_tokens - cached
    return {"local_compute": computed, "local_cache_hit": cached, "external_kv_transfer": 0}


def _cache_tiers(engine: Engine) -> dict[str, float]:
    none = dict.fromkeys(("host", "p2p", "disk", "external_unspecified"), 0)
    return {"device": engine.tally.cached_tokens, **none}


def _sleep_states(engine: Engine) -> dict[str, float]:
    asleep = engine.state is State.SLEEPING
    return {"awake": not asleep, "weights_offloaded": asleep, "discard_all": 0}


def _finished(engine: Engine) -> dict[str, float]:
    reasons = ("stop", "length", "abort", "error", "repetition")
    return {reason: engine.tally.finished[reason] for reason in reasons}


def _cache_config(engine: Engine) -> Iterable[Child]:
    limits = engine.limits
    tokens = limits.num_gpu_blocks * limits.block_size
    told = {
        "block_size": limits.block_size,
        "num_gpu_blocks": limits.num_gpu_blocks,
        "enable_prefix_caching": limits.prefix_caching,
        "kv_cache_size_tokens": tokens,
        "kv_cache_max_concurrency": tokens / limits.max_model_len,
        "cache_dtype": "auto",
        "gpu_memory_utilization": 0.9,
        "is_attention_free": False,
        "num_cpu_blocks": 0,
    }
    return [({name: str(value) for name, value in told.items()}, 1.0)]


_ENGINE: Mapping[str, Callable[[Engine], Iterable[Child]]] = {
    **{key: _tallied(key) for key in _TALLIED},
    **dict.fromkeys(_NEVER, _one(lambda _: 0.0)),
    "prompt_tokens_cached": _tallied("cached_tokens"),
    "tokens": _one(lambda engine: engine.tally.prompt_tokens + engine.tally.generation_tokens),
    "running": _one(lambda engine: engine.gauges.running),
    "waiting": _one(lambda engine: engine.gauges.waiting),
    "waiting_for_capacity": _one(lambda engine: engine.gauges.waiting - engine.gauges.deferred),
    "waiting_by_reason": _split("reason", _waiting_reasons),
    "kv_usage": _one(lambda engine: engine.gauges.kv_usage),
    "gpu_prefix_hit_rate": _one(_hit_rate),
    "prompt_tokens_by_source": _split("source", _prompt_sources),
    "prompt_tokens_cached_by_source": _split("source", _cache_tiers),
    "sleep_state": _split("sleep_state", _sleep_states),
    "finished": _split("finished_reason", _finished),
    "cache_config": _cache_config,
}

# --- Of the server


def _rejections(deployment: Deployment) -> Iterable[Child]:
    for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
        yield {"model_name": deployment.model, "reason": reason}, deployment.admission.rejections[reason]


def _adapters(deployment: Deployment) -> Iterable[Child]:
    """Return a child for every state of the adapters that ever was: vLLM forgets none either."""
    limit = str(deployment.limits.max_loras or 0)
    seen = {("", ""): deployment.started_at}
    for engine in deployment.engines:
        for adapters, at in engine.adapters.items():
            seen[adapters] = max(at, seen.get(adapters, at))
    for (waiting, running), at in seen.items():
        labels = {"max_lora": limit, "waiting_lora_adapters": waiting, "running_lora_adapters": running}
        yield labels, at


def _http_requests(deployment: Deployment) -> Iterable[Child]:
    for (method, handler, status), count in deployment.http.answers.items():
        yield {"method": method, "handler": handler, "status": status}, count


def _http_seconds(deployment: Deployment) -> Iterable[Child]:
    for (method, handler), histogram in deployment.http.seconds.items():
        yield {"method": method, "handler": handler}, histogram


def _http_bytes(attribute: str) -> Callable[[Deployment], Iterable[Child]]:
    def read(deployment: Deployment) -> Iterable[Child]:
        found: Mapping[str, Histogram] = getattr(deployment.http, attribute)
        for handler, histogram in found.items():
            yield {"handler": handler}, histogram

    return read


_SERVER: Mapping[str, Callable[[Deployment], Iterable[Child]]] = {
    "lora": _adapters,
    "admission_rejections": _rejections,
    "http_requests": _http_requests,
    "http_duration": _http_seconds,
    "http_duration_highr": lambda deployment: [({}, deployment.http.all_seconds)],
    "http_request_size": _http_bytes("request_bytes"),
    "http_response_size": _http_bytes("response_bytes"),
}
