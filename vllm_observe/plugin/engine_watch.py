"""What one engine tells of itself after each step, made into records.

vLLM calls this on the event loop that serves requests, so it only looks at attributes and appends to a
queue. No release promises an attribute: what is not there, or cannot be, is left out of the record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from vllm_observe.plugin.names import bounded
from vllm_observe.plugin.process import Process
from vllm_observe.plugin.say import logger

__all__ = ["EngineWatch"]

#: Seconds between two samples, at least.
SAMPLE_S = 1.0
#: What moves the time of a record on, so that no two of an engine are the same: two answers to one
#: request bear one id and may end in one step.
_APART_S = 1e-6
#: Seconds that a step's own time may lie before the call that tells of it.
_STEP_S = 5.0
#: What a phase may exceed the whole by: they are taken by two clocks.
_ROUNDING_S = 0.05

_LIMITS = {
    "scheduler_config": ("max_num_seqs", "max_num_active_seqs", "max_num_batched_tokens"),
    "model_config": ("max_model_len",),
    "cache_config": ("num_gpu_blocks", "block_size"),
}
_COUNTS = {
    "prompt_tokens": "num_prompt_tokens",
    "completion_tokens": "num_generation_tokens",
    "cached_tokens": "num_cached_tokens",
    "preemptions": "num_preemptions",
    "max_tokens": "max_tokens_param",
}
_PHASES = {
    "queue_s": "queued_time",
    "prefill_s": "prefill_time",
    "decode_s": "decode_time",
    "tpot_s": "mean_time_per_output_token",
}


class EngineWatch:
    """Makes the records of one engine.

    Args:
        config: vLLM's whole configuration.
        engine: the engine's number.
        version: vLLM's release, where it is known.
    """

    def __init__(self, config: Any, engine: int, *, version: str | None, process: Process) -> None:
        self._config = config
        self._engine = str(engine)
        self._version = version
        self._process = process
        self._model = _model(config)
        self._limits_told = False
        self._ids_missing = False
        self._stats: Any = None  # the engine's last word about itself
        self._sampled_at = -math.inf
        self._sample_due = False

    def ready(self) -> None:
        """Write the engine's limits, once: it has fitted them to its memory by now."""
        if self._limits_told:
            return
        self._limits_told = True
        limits = {
            name: _limit(getattr(getattr(self._config, part, None), name, None))
            for part, names in _LIMITS.items()
            for name in names
        }
        record = {"kind": "limits", "engine": self._engine, **limits, "vllm_version": self._version}
        if any(limits.values()):
            self._process.sink.keep(f"limits-{self._engine}", _known(record))

    def step(self, scheduler_stats: Any, iteration_stats: Any) -> None:
        """Take what vLLM tells after a step; either may be ``None``."""
        if not self._limits_told:
            self.ready()
        if scheduler_stats is not None:
            self._stats = scheduler_stats
            self._sample_due = True
        if self._sample_due:
            self.sample()
        if finished := getattr(iteration_stats, "finished_requests", None):
            self._write_finished(finished, getattr(iteration_stats, "iteration_timestamp", None))

    def sample(self) -> None:
        """Write the engine's state where it told of one since the last time, and that is a while ago."""
        now = self._process.monotonic()
        if not self._sample_due or now - self._sampled_at < SAMPLE_S:
            return
        self._sampled_at, self._sample_due = now, False
        record = {
            "kind": "sample",
            "ts": round(self._process.wall(), 6),
            "model": self._model,
            "engine": self._engine,
            **_state(self._stats),
            **_waiting(self._stats),
        }
        self._process.sink.put(_known(record))

    def _write_finished(self, finished: Iterable[Any], stepped_at: object) -> None:
        state = _known(_state(self._stats) | _waiting(self._stats)) or None
        now = self._process.wall()
        at = stepped_at if isinstance(stepped_at, float) and 0 <= now - stepped_at < _STEP_S else now
        for number, request in enumerate(finished):
            engine_id = getattr(request, "request_id", None)
            if not isinstance(engine_id, str):
                self._miss_ids()
                return
            reason = getattr(request, "finish_reason", None)
            record = {
                "kind": "engine",
                "ts": round(at + number * _APART_S, 6),
                "request_id": bounded(self._process.response_ids.client_id(engine_id) or engine_id),
                "model": self._model,
                "engine": self._engine,
                "finish_reason": None if reason is None else str(reason),
                **_times(request),
                **{name: _count(getattr(request, told, None)) for name, told in _COUNTS.items()},
                "state": state,
            }
            self._process.sink.put(_known(record))

    def _miss_ids(self) -> None:
        if not self._ids_missing:
            self._ids_missing = True
            logger.info("vllm-observe writes no engine records: this vLLM's statistics name no request")


def _state(stats: Any) -> dict[str, Any]:
    waiting = _count(getattr(stats, "num_waiting_reqs", None))
    deferred = _count(getattr(stats, "num_skipped_waiting_reqs", None))
    usage = _amount(getattr(stats, "kv_cache_usage", None))
    return {
        "running": _count(getattr(stats, "num_running_reqs", None)),
        "waiting": None if waiting is None else waiting + (deferred or 0),
        "kv_usage": None if usage is None else round(min(usage, 1.0), 4),
    }


def _waiting(stats: Any) -> dict[str, Any]:
    """Return why requests wait. Where vLLM does not tell the two apart, neither is known."""
    deferred = _count(getattr(stats, "num_skipped_waiting_reqs", None))
    capacity = None if deferred is None else _count(getattr(stats, "num_waiting_reqs", None))
    return {"waiting_capacity": capacity, "waiting_deferred": deferred}


def _times(request: Any) -> dict[str, float | None]:
    """Return the times that can be true. A phase that was never entered is counted from no start."""
    whole = _amount(getattr(request, "e2e_latency", None))
    longest = math.inf if whole is None else whole + _ROUNDING_S
    times = {name: _amount(getattr(request, told, None)) for name, told in _PHASES.items()}
    known = {
        name: None if seconds is None or seconds > longest else round(seconds, 6)
        for name, seconds in {"e2e_s": whole, **times}.items()
    }
    # Where vLLM's engine tells no milestones, two that were never set give a queue of no time at all, and the
    # prefill begins with the host.
    if known["queue_s"] == 0 and known["prefill_s"] is None:
        known["queue_s"] = None
    return known


def _model(config: Any) -> str | None:
    """Return the name by which clients ask for the model; vLLM's metrics bear it too."""
    model = getattr(config, "model_config", None)
    name = getattr(model, "served_model_name", None) or getattr(model, "model", None)
    if isinstance(name, list | tuple):
        name = name[0] if name else None
    return name if isinstance(name, str) else None


def _amount(value: object) -> float | None:
    # A bool is an int, and nobody's amount.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return None
    return value


def _count(value: object) -> int | None:
    amount = _amount(value)
    return None if amount is None else int(amount)


def _limit(value: object) -> int | None:
    return _count(value) or None


def _known(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}
