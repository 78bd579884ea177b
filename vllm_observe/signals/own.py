"""Our own metrics, one row each: name, what it tells; its labels, and the values a label can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial

from vllm_observe.errors import Drop, ScrapeFailure, UnparsedReason
from vllm_observe.model import BindingLimit, Cause, Kind, Outcome, Parts, Phases
from vllm_observe.signals.rows import ENGINE, OwnMetric

__all__ = ["OWN"]

# What a user waits for: from an answer out of a cache to the limit of a patient proxy. The targets
# of thresholds.py are bounds, so that a share within target is counted and not interpolated, and so
# are 2 and 3 s, beside which many people put theirs. request_targets_total counts any target exactly.
_FELT_S = (
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 2.5, 3.0, 5.0, 7.5,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
# A phase can be far shorter: an idle engine schedules a request within a millisecond.
_PHASE_S = (0.001, 0.0025, 0.005, *_FELT_S)


def _metric(
    name: str,
    meaning: str,
    *,
    kind: Kind,
    by: tuple[str, ...] = (),
    unit: str = "",
    buckets: tuple[float, ...] = (),
    known: Mapping[str, tuple[str, ...]] | None = None,
) -> OwnMetric:
    return OwnMetric(
        name=name, kind=kind, labels=by, help=meaning, unit=unit, buckets=buckets, known=known or {}
    )


def _values(members: Iterable[Enum]) -> tuple[str, ...]:
    return tuple(str(member.value) for member in members)


_counter = partial(_metric, kind=Kind.COUNTER)
_gauge = partial(_metric, kind=Kind.GAUGE)
_histogram = partial(_metric, kind=Kind.HISTOGRAM)

# A table reads best with its facts on one line and its words on the next.
# fmt: off

_REQUESTS = (
    _counter("vllm_observe_requests_total",
             "Requests, by how they ended for the client.",
             by=("model_name", "profile", "outcome"), known={"outcome": _values(Outcome)}),
    _histogram("vllm_observe_request_duration_seconds",
               "Duration of a request as its user felt it.",
               by=("model_name", "profile"), unit="seconds", buckets=_FELT_S),
    _histogram("vllm_observe_request_ttft_seconds",
               "Time to a request's first token as its user felt it.",
               by=("model_name", "profile"), unit="seconds", buckets=_FELT_S),
    _histogram("vllm_observe_request_phase_seconds",
               "Where a request's duration went; outside is what no engine accounts for.",
               by=("model_name", "phase"), unit="seconds", buckets=_PHASE_S,
               known={"phase": Phases.__struct_fields__}),
    _counter("vllm_observe_slow_requests_total",
             "Slow or failed requests, by the one cause that best explains each.",
             by=("model_name", "profile", "cause"), known={"cause": _values(Cause)}),
    _counter("vllm_observe_request_tokens_total",
             "Tokens of joined requests. The cached and the uncached ones are the prompt's again, of the "
             "requests that tell them apart.",
             by=("model_name", "profile", "kind"), unit="tokens",
             known={"kind": ("prompt", "cached", "uncached", "completion")}),
    _counter("vllm_observe_request_retries_total",
             "Attempts after a request's first.",
             by=("model_name",)),
    _counter("vllm_observe_request_targets_total",
             "Requests that met a latency target, and those that missed it.",
             by=("model_name", "profile", "target", "met"),
             known={"target": ("ttft", "tpot", "e2e"), "met": ("true", "false")}),
    _gauge("vllm_observe_target_info",
           "Which targets apply, and where vLLM's limits were read; the value is 1.",
           by=("service_class", "vllm_version", "limits_source")),
    _gauge("vllm_observe_active_sessions",
           "Sessions of which a request ended in the last minutes."),
)

_ENGINE = (
    _gauge("vllm_observe_max_num_seqs",
           "The most requests that one engine runs at once.",
           by=ENGINE),
    _gauge("vllm_observe_sequence_utilization_ratio",
           "Running requests over max_num_seqs, for each engine.",
           by=ENGINE, unit="ratio"),
    _gauge("vllm_observe_binding_limit",
           "1 for the limit that holds an engine back now, 0 for the others.",
           by=(*ENGINE, "limit"), known={"limit": _values(BindingLimit)}),
    _gauge("vllm_observe_kv_cache_capacity_tokens",
           "Tokens that an engine's KV cache can hold.",
           by=ENGINE, unit="tokens"),
    _gauge("vllm_observe_engine_stalled",
           "1 where an engine has work and produces nothing.",
           by=ENGINE),
    _gauge("vllm_observe_engine_answers_without_tokens",
           "1 where requests are answered 2xx and no engine serves them."),
    _counter("vllm_observe_engine_restarts_total",
             "Restarts of vLLM, seen as counters that fell."),
    _gauge("vllm_observe_lora_max_adapters",
           "LoRA adapters that may be loaded at once."),
    _gauge("vllm_observe_lora_adapters",
           "LoRA adapters with requests running or waiting.",
           by=("state",)),
    _gauge("vllm_observe_lora_adapter_active",
           "1 where an adapter has requests running or waiting.",
           by=("adapter", "state")),
)

_SCRAPE = (
    _gauge("vllm_observe_scrape_success",
           "1 where the last scrape of vLLM gave an engine's state."),
    _counter("vllm_observe_scrape_failures_total",
             "Scrapes of vLLM that gave none.",
             by=("reason",), known={"reason": _values(ScrapeFailure)}),
    _gauge("vllm_observe_scrape_duration_seconds",
           "Duration of the last scrape of vLLM.",
           unit="seconds"),
    _counter("vllm_observe_scrapes_skipped_total",
             "Scrapes left out because the one before was still under way."),
    _counter("vllm_observe_exposition_dropped_total",
             "Samples and families of vLLM's page that were not passed on.",
             by=("reason",),
             known={"reason": _values(Drop)}),
)

_JOIN = (
    _counter("vllm_observe_join_closed_total",
             "Requests that left the join, by the sides that were seen of them.",
             by=("parts",), known={"parts": _values(Parts)}),
    _counter("vllm_observe_join_amended_total",
             "Requests of which a part came after they had left the join."),
    _gauge("vllm_observe_clock_skew_seconds",
           "Seconds by which the clock of a request log is ahead of vLLM's, once that is known.",
           by=("source",), unit="seconds"),
    _gauge("vllm_observe_join_pending",
           "Requests in the join that still wait for a part."),
    _counter("vllm_observe_unattributed_tokens_total",
             "Tokens that vLLM counted and no request claims, compared every ten minutes.",
             by=("kind",), unit="tokens", known={"kind": ("prompt", "completion")}),
    _counter("vllm_observe_dropped_total",
             "What a bound cut off, by the bound.",
             by=("reason",),
             known={"reason": ("bad_value", "join_full", "label_cap", "sessions_full", "store_full",
                               "too_old")}),
)

_LOG = (
    _counter("vllm_observe_log_lines_total",
             "Lines read from the request logs."),
    _counter("vllm_observe_log_bytes_total",
             "Bytes read from the request logs.",
             unit="bytes"),
    _counter("vllm_observe_log_unparsed_total",
             "Lines and spans that should be records and are none.",
             by=("reason",), known={"reason": _values(UnparsedReason)}),
    _counter("vllm_observe_spans_total",
             "Spans that were sent to /v1/traces, by what became of them.",
             by=("result",), known={"result": ("record", "unparsed", "other")}),
    _gauge("vllm_observe_log_lag_seconds",
           "Seconds for which a request log has held what was not read yet.",
           unit="seconds"),
    _gauge("vllm_observe_log_files_waiting",
           "Request logs that are not followed because too many others are."),
    _counter("vllm_observe_log_rotations_total",
             "Request logs that another file took the place of."),
    _counter("vllm_observe_log_truncations_total",
             "Request logs that became shorter."),
    _counter("vllm_observe_log_open_errors_total",
             "Request logs that could not be opened."),
    _counter("vllm_observe_log_unread_total",
             "Request logs and rotations that were given up with what was not read of them, by why.",
             by=("reason",), known={"reason": ("compressed", "gone")}),
)

_STORE = (
    _gauge("vllm_observe_store_rows",
           "Requests in the store; absent without one, and while it cannot be used."),
    _counter("vllm_observe_store_errors_total",
             "Times that the store could not be written, opened or understood."),
)

_SELF = (
    _gauge("vllm_observe_build_info",
           "This program; the value is 1.",
           by=("version", "python_version")),
    _counter("vllm_observe_faults_total",
             "Faults of this program that it survived; its log tells each once."),
    _counter("vllm_observe_config_reloads_total",
             "Readings of the configuration while running.",
             by=("result",), known={"result": ("ok", "failed")}),
)
# fmt: on

#: Every metric that this program adds to vLLM's.
OWN: tuple[OwnMetric, ...] = (*_REQUESTS, *_ENGINE, *_SCRAPE, *_JOIN, *_LOG, *_STORE, *_SELF)
