"""What is known of vLLM beside its names: the values that its labels have, and the bounds of its buckets.

From vLLM's code: the values are those of the newest release, in which none of an older one is missing. The
bounds are the same in all releases from 0.8.5 on, where ``--custom-histogram-buckets`` does not change them.
Those that depend on the model's length are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from vllm_observe.alerts.buckets import VLLM_TTFT, known_bounds

__all__ = ["BOUNDS", "BOUNDS_SINCE", "ONES", "OPEN", "STATES", "SWITCHES", "VALUES"]

#: By a signal's key: for a label of it the values that it has.
VALUES: Mapping[str, Mapping[str, frozenset[str]]] = {
    "finished": {"finished_reason": frozenset({"stop", "length", "abort", "error", "repetition"})},
    "waiting_by_reason": {"reason": frozenset({"capacity", "deferred"})},
    "sleep_state": {"sleep_state": frozenset({"awake", "weights_offloaded", "discard_all"})},
    "admission_rejections": {"reason": frozenset({"max_num_queued_reqs", "max_num_queued_tokens"})},
    "prompt_tokens_by_source": {
        "source": frozenset({"local_compute", "local_cache_hit", "external_kv_transfer"})
    },
    "http_requests": {
        "status": frozenset({"1xx", "2xx", "3xx", "4xx", "5xx"}),
        "method": frozenset({"GET", "POST"}),
        "handler": frozenset(
            {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/models"}
            | {
                "/v1/messages",
                "/v1/rerank",
                "/v1/score",
                "/v1/audio/transcriptions",
                "/v1/audio/translations",
            }
            | {"/tokenize", "/detokenize", "/pooling", "/classify", "/score", "/rerank", "none"}
        ),
    },
}
#: The labels among them that have other values too.
OPEN = frozenset({"handler", "method"})
#: The metrics that have one series for each state, of which one is 1 and all others are 0, with the label of it.
STATES: Mapping[str, str] = {
    "vllm:engine_sleep_state": "sleep_state",
    "vllm_observe_binding_limit": "limit",
}
#: The metrics that are 0 or 1, and those that are always 1.
SWITCHES = frozenset(
    {"up", "vllm_observe_scrape_success", "vllm_observe_engine_stalled", "vllm_observe_lora_adapter_active"}
    | {"vllm_observe_engine_answers_without_tokens", *STATES}
)
ONES = frozenset(
    {"vllm:cache_config_info", "vllm:kv_offload_config_info", "vllm:simple_kv_offload_info"}
    | {"vllm_observe_target_info", "vllm_observe_build_info"}
)

BOUNDS_SINCE = "0.8.5"
_PHASE_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_HTTP_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0),
    *(7.5, 10.0, 30.0, 60.0),
)
#: By a signal's key, without the infinite one.
BOUNDS: Mapping[str, tuple[float, ...]] = {
    "ttft": known_bounds(VLLM_TTFT),
    **dict.fromkeys(("itl", "tpot"), _TOKEN_S),
    **dict.fromkeys(("e2e", "queue_time", "prefill_time", "decode_time", "inference_time"), _PHASE_S),
    "step_tokens": tuple(float(2**power) for power in (0, *range(3, 15))),
    "request_n": (1.0, 2.0, 5.0, 10.0, 20.0),
    "request_preemptions": (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0),
    "http_duration": (0.1, 0.5, 1.0),
    "http_duration_highr": _HTTP_S,
}
