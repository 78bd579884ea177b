"""vLLM's metrics, one row each: key, name, unit, the first release with that name; what it tells.

Read from the code of 36 releases. All but the ``http_`` ones vanish with ``--disable-log-stats``.
A family whose shape changed on its way (a rate that became two counters, one counter with a
direction label that became two) was not renamed: the old one is a signal of its own that ended.

The four metrics of the KVCR connector (from 0.30.0 on) are left out: their names are made in
another package, and vLLM's own code only holds placeholders for them.
"""

from __future__ import annotations

from vllm_observe.signals.rows import Former, Signal, counter, gauge, histogram, needs, summary
from vllm_observe.signals.vllm_kv import KV_OFFLOAD, KV_TRANSFER

__all__ = ["NEWEST", "OLDEST", "SIGNALS"]

#: The releases between which the table is right.
OLDEST = "0.6.6.post1"
NEWEST = "0.33.0"

_V0 = ("model_name",)

# A table reads best with its facts on one line and its words on the next.
# fmt: off

_SCHEDULER = (
    gauge("running", "vllm:num_requests_running", "requests", OLDEST,
          "Requests in the running batch."),
    gauge("waiting", "vllm:num_requests_waiting", "requests", OLDEST,
          "Requests that wait to be scheduled; from 0.20.0 on the deferred ones too."),
    gauge("waiting_by_reason", "vllm:num_requests_waiting_by_reason", "requests", "0.20.0",
          "Waiting requests by reason: capacity, or deferred (a KV transfer, a LoRA slot, a grammar).",
          by=("reason",)),
    counter("preemptions", "vllm:num_preemptions_total", "preemptions", OLDEST,
            "Requests thrown out of the running batch for want of KV blocks."),
    histogram("step_tokens", "vllm:iteration_tokens_total", "tokens", OLDEST,
              "Tokens that one engine step computed; from 0.23.0 on without cached prompt tokens."),
    gauge("sleep_state", "vllm:engine_sleep_state", "", "0.11.1",
          "1 for the state that the engine is in: awake, weights_offloaded, discard_all.",
          by=("sleep_state",)),
    counter("admission_rejections", "vllm:admission_rejections_total", "requests", "0.32.0",
            "Requests refused because a queue limit was reached.", labels=("model_name", "reason")),
    *needs("a KV connector that receives (`kv_role` kv_consumer or kv_both)",
        gauge("kv_fetch", "vllm:num_requests_kv_fetch_by_stage", "requests", "0.32.0",
              "Requests that wait for KV blocks from another instance, by stage.", by=("stage",)),
    ),
    *needs("`--enable-lora`, except in V0",
        gauge("lora", "vllm:lora_requests_info", "", OLDEST,
              "LoRA adapters in use, as lists in labels; the value is the time of the last change, so that"
              " only the series with the largest value is current.",
              labels=("max_lora", "waiting_lora_adapters", "running_lora_adapters")),
    ),
    *needs("the first sleep or wake-up",
        histogram("sleep_duration", "vllm:sleep_mode_operation_duration_seconds", "seconds", "0.32.0",
                  "Duration of a sleep or wake-up.", labels=("operation",)),
        gauge("sleeps_in_flight", "vllm:sleep_mode_operations_in_flight", "operations", "0.32.0",
              "Sleeps and wake-ups under way.", labels=("operation",)),
    ),
    *needs("the first weight update from a trainer",
        histogram("weight_update_duration", "vllm:rl_weight_update_operation_duration_seconds", "seconds",
                  "0.32.0", "Duration of a step of a weight update.", labels=("operation",)),
        gauge("weight_updates_in_flight", "vllm:rl_weight_update_operations_in_flight", "operations",
              "0.32.0", "Steps of weight updates under way.", labels=("operation",)),
    ),
)

_CACHE = (
    gauge("kv_usage", "vllm:kv_cache_usage_perc", "ratio", "0.9.2",
          "Share of the KV-cache blocks in use, 0 to 1.",
          former=(Former("vllm:gpu_cache_usage_perc", OLDEST, "0.10.2"),)),
    counter("prefix_queries", "vllm:prefix_cache_queries_total", "tokens", "0.9.2",
            "Prompt tokens looked up in the prefix cache.",
            former=(Former("vllm:gpu_prefix_cache_queries_total", "0.7.3", "0.10.2"),)),
    counter("prefix_hits", "vllm:prefix_cache_hits_total", "tokens", "0.9.2",
            "Prompt tokens found in the prefix cache.",
            former=(Former("vllm:gpu_prefix_cache_hits_total", "0.7.3", "0.10.2"),)),
    counter("external_prefix_queries", "vllm:external_prefix_cache_queries_total", "tokens", "0.11.1",
            "Prompt tokens looked up through the KV connector."),
    counter("external_prefix_hits", "vllm:external_prefix_cache_hits_total", "tokens", "0.11.1",
            "Prompt tokens found through the KV connector."),
    counter("mm_queries", "vllm:mm_cache_queries_total", "items", "0.11.1",
            "Images and other media looked up in the multi-modal cache."),
    counter("mm_hits", "vllm:mm_cache_hits_total", "items", "0.11.1",
            "Images and other media found in the multi-modal cache."),
    gauge("cache_config", "vllm:cache_config_info", "", OLDEST,
          "The cache's configuration in labels, some of them None; the value is 1.",
          labels=("engine", "block_size", "num_gpu_blocks", "enable_prefix_caching", "kv_cache_size_tokens"),
          more_labels=True),
    *needs("`--kv-cache-metrics`",
        histogram("kv_block_lifetime", "vllm:kv_block_lifetime_seconds", "seconds", "0.12.0",
                  "Time from a KV block's allocation to its eviction, sampled."),
        histogram("kv_block_idle", "vllm:kv_block_idle_before_evict_seconds", "seconds", "0.12.0",
                  "Time from a KV block's last use to its eviction, sampled."),
        histogram("kv_block_reuse_gap", "vllm:kv_block_reuse_gap_seconds", "seconds", "0.12.0",
                  "Time between two uses of a KV block, sampled."),
    ),
)

_TOKENS = (
    counter("prompt_tokens", "vllm:prompt_tokens_total", "tokens", OLDEST,
            "Prompt tokens of the requests that were prefilled, cached ones included."),
    counter("prompt_tokens_by_source", "vllm:prompt_tokens_by_source_total", "tokens", "0.16.0",
            "Prompt tokens by source: local_compute, local_cache_hit, external_kv_transfer.", by=("source",)),
    counter("prompt_tokens_cached", "vllm:prompt_tokens_cached_total", "tokens", "0.16.0",
            "Prompt tokens that a cache held, here or elsewhere."),
    counter("prompt_tokens_cached_by_source", "vllm:prompt_tokens_cached_by_source_total", "tokens", "0.32.0",
            "Cached prompt tokens by the tier that held them.", by=("source",)),
    counter("generation_tokens", "vllm:generation_tokens_total", "tokens", OLDEST,
            "Tokens generated."),
    *needs("`--speculative-config`",
        counter("drafts", "vllm:spec_decode_num_drafts_total", "drafts", "0.8.5",
                "Drafts proposed by speculative decoding."),
        counter("draft_tokens", "vllm:spec_decode_num_draft_tokens_total", "tokens", OLDEST,
                "Tokens in those drafts."),
        counter("accepted_tokens", "vllm:spec_decode_num_accepted_tokens_total", "tokens", OLDEST,
                "Drafted tokens that the model accepted."),
        counter("accepted_tokens_by_position", "vllm:spec_decode_num_accepted_tokens_per_pos_total", "tokens",
                "0.8.5", "Accepted tokens by their position in the draft.", by=("position",)),
    ),
    *needs("a diffusion model",
        counter("denoising_steps", "vllm:diffusion_num_denoising_steps_total", "steps", "0.24.0",
                "Denoising steps."),
        counter("canvas_positions", "vllm:diffusion_num_canvas_positions_total", "positions", "0.24.0",
                "Positions of the canvas that those steps evaluated."),
        counter("committed_tokens", "vllm:diffusion_num_committed_tokens_total", "tokens", "0.24.0",
                "Tokens that became final."),
    ),
    *needs("`--enable-mfu-metrics`",
        counter("estimated_flops", "vllm:estimated_flops_per_gpu_total", "operations", "0.17.0",
                "Floating-point operations a GPU, as estimated."),
        counter("estimated_read_bytes", "vllm:estimated_read_bytes_per_gpu_total", "bytes", "0.17.0",
                "Bytes a GPU read from its memory, as estimated."),
        counter("estimated_write_bytes", "vllm:estimated_write_bytes_per_gpu_total", "bytes", "0.17.0",
                "Bytes a GPU wrote to its memory, as estimated."),
    ),
)

# The frontend measures ttft and e2e from the request's arrival, the engine measures the phases.
_LATENCY = (
    histogram("ttft", "vllm:time_to_first_token_seconds", "seconds", OLDEST,
              "Time to the first token."),
    histogram("itl", "vllm:inter_token_latency_seconds", "seconds", "0.10.2",
              "Time between two outputs of a request; with speculative decoding an output holds several tokens.",
              former=(Former("vllm:time_per_output_token_seconds", OLDEST, "0.11.2"),)),
    histogram("tpot", "vllm:request_time_per_output_token_seconds", "seconds", "0.11.0.post2",
              "A request's mean time per token after the first; 0 where there was only one."),
    histogram("e2e", "vllm:e2e_request_latency_seconds", "seconds", OLDEST,
              "Time from a request's arrival to its last token."),
    histogram("queue_time", "vllm:request_queue_time_seconds", "seconds", OLDEST,
              "Time from queued to first scheduled.",
              former=(Former("vllm:time_in_queue_requests", OLDEST, "0.7.3"),)),
    histogram("prefill_time", "vllm:request_prefill_time_seconds", "seconds", OLDEST,
              "Time from first scheduled to the first token."),
    histogram("decode_time", "vllm:request_decode_time_seconds", "seconds", OLDEST,
              "Time from the first token to the last."),
    histogram("inference_time", "vllm:request_inference_time_seconds", "seconds", OLDEST,
              "Time from first scheduled to the last token."),
)

# A client that left is in none of these, in any V1 release: only an edge record knows of it.
_REQUESTS = (
    counter("finished", "vllm:request_success_total", "requests", OLDEST,
            "Requests that the engine ended: stop, length, abort, error, repetition.",
            by=("finished_reason",)),
    histogram("request_prompt_tokens", "vllm:request_prompt_tokens", "tokens", OLDEST,
              "Prompt tokens of a finished request."),
    histogram("request_generation_tokens", "vllm:request_generation_tokens", "tokens", OLDEST,
              "Generated tokens of a finished request."),
    histogram("request_prefill_tokens", "vllm:request_prefill_kv_computed_tokens", "tokens", "0.13.0",
              "Prompt tokens that a finished request's prefill computed, cached ones excluded."),
    histogram("request_preemptions", "vllm:request_num_preemptions", "preemptions", "0.30.0",
              "How often a finished request was preempted."),
    histogram("request_max_tokens", "vllm:request_params_max_tokens", "tokens", OLDEST,
              "The max_tokens that a finished request asked for."),
    histogram("request_max_generation_tokens", "vllm:request_max_num_generation_tokens", "tokens", OLDEST,
              "The most tokens that any output of a finished request had."),
    histogram("request_n", "vllm:request_params_n", "outputs", OLDEST,
              "The n that a finished request asked for."),
    *needs("`VLLM_COMPUTE_NANS_IN_LOGITS=1`",
        counter("corrupted", "vllm:corrupted_requests_total", "requests", "0.11.1",
                "Requests with NaN in their logits."),
    ),
    *needs("`--tool-call-parser`",
        counter("tool_calls", "vllm:tool_call_parser_invocations_total", "calls", "0.24.0",
                "Runs of the tool-call parser.", labels=("model_name", "mode", "outcome", "request_type")),
    ),
    *needs("a watermark configuration",
        counter("watermarked", "vllm:watermark_requests_total", "requests", "0.32.0",
                "Requests by what became of their watermark.", by=("status",)),
    ),
    *needs("a model for realtime sessions",
        gauge("websockets", "vllm:websocket_connections_active", "connections", "0.18.0",
              "Open WebSocket connections.", labels=()),
        counter("websockets_opened", "vllm:websocket_connections_total", "connections", "0.18.0",
                "WebSocket connections ever opened.", labels=()),
        histogram("websocket_duration", "vllm:websocket_connection_duration_seconds", "seconds", "0.18.0",
                  "How long a WebSocket connection lasted.", labels=()),
    ),
)

# From prometheus-fastapi-instrumentator. Its 2xx counts dead engines' answers too.
_HTTP = (
    counter("http_requests", "http_requests_total", "requests", "0.8.5",
            "HTTP requests answered, by status class.", labels=("method", "status", "handler")),
    histogram("http_duration", "http_request_duration_seconds", "seconds", "0.8.5",
              "Duration of an HTTP request, a stream's whole length, in few buckets.",
              labels=("method", "handler")),
    histogram("http_duration_highr", "http_request_duration_highr_seconds", "seconds", "0.8.5",
              "Duration of any HTTP request in many buckets.", labels=()),
    summary("http_request_size", "http_request_size_bytes", "bytes", "0.8.5",
            "Content length of HTTP requests.", labels=("handler",)),
    summary("http_response_size", "http_response_size_bytes", "bytes", "0.8.5",
            "Content length of HTTP answers; 0 for a stream.", labels=("handler",)),
)

# What vLLM exposes no more, most of it because V0 went. No current metric means the same.
_ENDED = (
    gauge("swapped", "vllm:num_requests_swapped", "requests", OLDEST,
          "Requests swapped out to memory.", labels=_V0, last="0.7.3"),
    gauge("cpu_kv_usage", "vllm:cpu_cache_usage_perc", "ratio", OLDEST,
          "Share of the swap space in use, 0 to 1.", labels=_V0, last="0.7.3"),
    gauge("gpu_prefix_hit_rate", "vllm:gpu_prefix_cache_hit_rate", "ratio", OLDEST,
          "Share of prefix-cache look-ups that hit, since the start.", labels=_V0, last="0.7.3"),
    gauge("cpu_prefix_hit_rate", "vllm:cpu_prefix_cache_hit_rate", "ratio", OLDEST,
          "The same for blocks in memory.", labels=_V0, last="0.7.3"),
    gauge("prompt_throughput", "vllm:avg_prompt_throughput_toks_per_s", "tokens per second", OLDEST,
          "Prompt tokens a second.", labels=_V0, last="0.6.6.post1"),
    gauge("generation_throughput", "vllm:avg_generation_throughput_toks_per_s", "tokens per second", OLDEST,
          "Generated tokens a second.", labels=_V0, last="0.6.6.post1"),
    counter("tokens", "vllm:tokens_total", "tokens", OLDEST,
            "Prompt and generated tokens together.", labels=_V0, last="0.7.3"),
    counter("prompt_tokens_recomputed", "vllm:prompt_tokens_recomputed_total", "tokens", "0.16.0",
            "Cached prompt tokens that were computed again all the same.", last="0.19.1"),
    histogram("model_forward_time", "vllm:model_forward_time_milliseconds", "milliseconds", OLDEST,
              "Time in the model's forward pass.", labels=_V0, last="0.7.3"),
    histogram("model_execute_time", "vllm:model_execute_time_milliseconds", "milliseconds", OLDEST,
              "Time in the model's execution.", labels=_V0, last="0.7.3"),
    gauge("draft_acceptance_rate", "vllm:spec_decode_draft_acceptance_rate", "ratio", OLDEST,
          "Share of drafted tokens that were accepted.", labels=_V0, last="0.9.2"),
    gauge("spec_decode_efficiency", "vllm:spec_decode_efficiency", "ratio", OLDEST,
          "Tokens emitted, over those that full acceptance would give.", labels=_V0, last="0.9.2"),
    counter("emitted_tokens", "vllm:spec_decode_num_emitted_tokens_total", "tokens", OLDEST,
            "Tokens emitted by speculative decoding.", labels=_V0, last="0.9.2"),
)
# fmt: on

#: Every signal that vLLM has or had.
SIGNALS: tuple[Signal, ...] = (
    *_SCHEDULER,
    *_CACHE,
    *_TOKENS,
    *_LATENCY,
    *_REQUESTS,
    *_HTTP,
    *KV_TRANSFER,
    *KV_OFFLOAD,
    *_ENDED,
)
