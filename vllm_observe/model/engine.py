"""An engine: its state at a time, and what it may do at most."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec

__all__ = ["BindingLimit", "EngineKey", "EngineSample", "Limits", "LimitsSource", "ServiceClass"]


class EngineKey(NamedTuple):
    """One engine core behind one server: a served model and a data-parallel rank."""

    model_name: str
    engine: str


class EngineSample(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one engine at one time. Counters are totals since that engine's start."""

    at: float
    key: EngineKey
    running: float | None = None
    waiting: float | None = None
    waiting_capacity: float | None = None
    waiting_deferred: float | None = None
    kv_usage: float | None = None
    awake: bool | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    started: float | None = None  # requests that got a first token
    finished: float | None = None  # requests that ended, whatever the reason
    preemptions: float | None = None
    steps: float | None = None  # engine steps
    step_tokens: float | None = None  # tokens computed in all those steps


class BindingLimit(str, Enum):
    """What holds an engine back now."""

    SLOTS = "slots"  # running at max_num_seqs, others wait
    KV = "kv"  # no KV blocks for the next request
    TOKEN_BUDGET = "token_budget"  # noqa: S105  # a step is full at max_num_batched_tokens
    DEFERRED = "deferred"  # others wait on something else: a KV transfer, a LoRA slot, a grammar
    NONE = "none"  # nobody waits


class LimitsSource(str, Enum):
    """Where an engine's limits were read, in the order in which they are believed."""

    PLUGIN = "plugin"
    SERVER_INFO = "server_info"
    COMMAND_LINE = "command_line"
    ENGINE_LOG = "engine_log"
    SETTING = "setting"
    UNKNOWN = "unknown"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine may do at most. Each is per engine, never for a fleet."""

    source: LimitsSource = LimitsSource.UNKNOWN
    engine: str | None = None  # None: every engine of the server
    max_num_seqs: int | None = None
    max_num_active_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    num_gpu_blocks: int | None = None
    block_size: int | None = None
    vllm_version: str | None = None

    @property
    def slots(self) -> int | None:
        """How many requests may run at once: max_num_active_seqs where it is the lower."""
        if self.max_num_active_seqs is None or self.max_num_seqs is None:
            return self.max_num_active_seqs or self.max_num_seqs
        return min(self.max_num_active_seqs, self.max_num_seqs)


class ServiceClass(str, Enum):
    """Which latency targets apply to a server."""

    INTERACTIVE = "interactive"
    BATCH = "batch"
