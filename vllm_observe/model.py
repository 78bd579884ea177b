"""The values that the parts hand each other: frozen, typed, without any I/O.

Times of day are seconds since the Unix epoch, durations are seconds, shares are ratios 0..1 and
amounts are tokens or requests. ``None`` always means "not known", never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec

__all__ = [
    "BindingLimit",
    "Cause",
    "EdgeRecord",
    "EngineKey",
    "EngineRecord",
    "EngineSample",
    "EngineState",
    "Evidence",
    "Exemplar",
    "Family",
    "JoinedRequest",
    "Kind",
    "Limits",
    "LimitsSource",
    "Outcome",
    "Parts",
    "Phases",
    "Record",
    "Sample",
    "Series",
    "ServiceClass",
]


# --- An exposition -------------------------------------------------------------------------------


class Kind(str, Enum):
    """The type of a metric family, as OpenMetrics names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"
    INFO = "info"
    STATESET = "stateset"
    GAUGEHISTOGRAM = "gaugehistogram"
    UNKNOWN = "unknown"


class Series:
    """A sample's name and labels. A parser hands out one object for a series in all its scrapes."""

    __slots__ = ("labels", "name", "text")

    def __init__(self, name: str, labels: tuple[tuple[str, str], ...] = ()) -> None:
        self.name = name
        self.labels = labels
        #: The series as every text format writes it: ``name{label="value"}``.
        self.text = name if not labels else name + "{" + ",".join(map(_pair, labels)) + "}"

    def label(self, name: str) -> str | None:
        """The value of a label, or ``None`` where the series has no such label."""
        for key, value in self.labels:
            if key == name:
                return value
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Series):
            return NotImplemented
        return self.name == other.name and sorted(self.labels) == sorted(other.labels)

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.labels)))

    def __repr__(self) -> str:
        return f"Series({self.text})"


def _pair(label: tuple[str, str]) -> str:
    name, value = label
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{value}"'


class Exemplar(NamedTuple):
    """One observation behind a bucket or a counter."""

    labels: tuple[tuple[str, str], ...]
    value: float
    timestamp: float | None = None


class Sample(NamedTuple):
    """One value of one series."""

    series: Series
    value: float
    exemplar: Exemplar | None = None


class Family(NamedTuple):
    """A metric family.

    ``name`` is the name that its samples begin with, a counter's ``_total`` included; a renderer
    for OpenMetrics takes that suffix off where the format wants it.
    """

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample]
    unit: str = ""


# --- An engine ----------------------------------------------------------------------------------


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


# --- A request ----------------------------------------------------------------------------------


class Outcome(str, Enum):
    """How a request ended for its client. HTTP 200 alone is not ``ok``."""

    OK = "ok"
    ERROR = "error"
    ABORT = "abort"  # the client left, or the engine gave the request up
    TIMEOUT = "timeout"
    REJECTED = "rejected"  # refused before it was served: 429, 503


class EdgeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A request as seen from outside the engine; ``ts`` is its end."""

    ts: float
    request_id: str
    outcome: Outcome
    session_id: str | None = None
    profile: str | None = None
    client: str | None = None
    model: str | None = None
    path: str | None = None
    stream: bool | None = None
    status: int | None = None
    error: str | None = None
    duration_s: float | None = None
    ttft_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    max_tokens: int | None = None
    queue_depth: int | None = None
    trace_id: str | None = None

    @property
    def started_at(self) -> float:
        """When the request arrived; its end where the duration is not known."""
        return self.ts - (self.duration_s or 0.0)


class EngineState(msgspec.Struct, frozen=True, kw_only=True):
    """How full the engine was when a request ended, as the engine itself saw it."""

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None


class EngineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine did for one request; ``ts`` is its end, ``request_id`` is vLLM's id."""

    ts: float
    request_id: str
    model: str | None = None
    engine: str | None = None
    finish_reason: str | None = None
    e2e_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    tpot_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    preemptions: int | None = None
    max_tokens: int | None = None
    state: EngineState | None = None

    @property
    def started_at(self) -> float:
        """When the request reached the engine; its end where the latency is not known."""
        return self.ts - (self.e2e_s or 0.0)


#: What one line of a request log can hold.
Record = EdgeRecord | EngineRecord | EngineSample | Limits


class Cause(str, Enum):
    """The one reason that best explains a slow or failed request."""

    CLIENT_DISCONNECTED = "client_disconnected"
    REJECTED = "rejected"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    ENGINE_ERROR = "engine_error"
    QUEUE_SLOTS = "queue_slots"  # waited while running was at the limit
    QUEUE_KV = "queue_kv"  # waited while the KV cache was full
    PREEMPTED = "preempted"
    PREFILL_LONG = "prefill_long"  # a long prompt that no cache held
    DECODE_LONG = "decode_long"  # many output tokens at a normal rate
    DECODE_SLOW = "decode_slow"  # slow per token
    OUTSIDE_ENGINE = "outside_engine"  # app, network or tokenizer
    UNKNOWN = "unknown"


class Evidence(msgspec.Struct, frozen=True):
    """A cause with the numbers that speak for it, in one sentence for a person."""

    cause: Cause
    text: str


class Parts(str, Enum):
    """Which sides of a request a join has seen."""

    BOTH = "both"
    EDGE = "edge"
    ENGINE = "engine"


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request's duration went, in seconds; what no record tells is ``None``."""

    outside: float | None = None
    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None


class JoinedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one request: its records, the engine around it, and the cause."""

    request_id: str
    attempt: int = 1
    edges: tuple[EdgeRecord, ...] = ()  # outermost first
    engines: tuple[EngineRecord, ...] = ()  # in order of their start
    before_arrival: EngineSample | None = None
    before_end: EngineSample | None = None
    outcome: Outcome
    phases: Phases
    evidence: Evidence | None = None  # None: neither slow nor failed
    parts: Parts

    @property
    def session_id(self) -> str | None:
        """The app's session, from the outermost record that knows it."""
        return _first(edge.session_id for edge in self.edges)

    @property
    def profile(self) -> str | None:
        """The app's use of the model, from the outermost record that knows it."""
        return _first(edge.profile for edge in self.edges)

    @property
    def client(self) -> str | None:
        """Who sent the request, from the outermost record that knows it."""
        return _first(edge.client for edge in self.edges)

    @property
    def model_name(self) -> str | None:
        """The served model: the engine's word first, since a client may name an alias."""
        return _first((*(part.model for part in self.engines), *(edge.model for edge in self.edges)))

    @property
    def engine(self) -> str | None:
        """The data-parallel rank that served the request."""
        return _first(part.engine for part in self.engines)

    @property
    def ended_at(self) -> float:
        """When the last part of the request ended."""
        return max((*(edge.ts for edge in self.edges), *(part.ts for part in self.engines)))

    @property
    def duration_s(self) -> float | None:
        """The duration that the user felt: the outermost record's, else the longest engine part's."""
        felt = _first(edge.duration_s for edge in self.edges)
        return felt if felt is not None else max(_known(part.e2e_s for part in self.engines), default=None)

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token as the user saw it; without an edge's word the engine's."""
        seen = _first(edge.ttft_s for edge in self.edges)
        if seen is not None:
            return seen
        waits = ((part.queue_s, part.prefill_s) for part in self.engines)
        return min(
            (queue + prefill for queue, prefill in waits if queue is not None and prefill is not None),
            default=None,
        )

    @property
    def prompt_tokens(self) -> int | None:
        """Prompt tokens, cached ones included."""
        return self._tokens("prompt_tokens")

    @property
    def completion_tokens(self) -> int | None:
        """Output tokens."""
        return self._tokens("completion_tokens")

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens that a prefix cache held."""
        return self._tokens("cached_tokens")

    def _tokens(self, field: str) -> int | None:
        told = _first(getattr(edge, field) for edge in self.edges)
        counted = _known(getattr(part, field) for part in self.engines)
        return told if told is not None else (sum(counted) if counted else None)


_T = TypeVar("_T")


def _known(values: Iterable[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def _first(values: Iterable[_T | None]) -> _T | None:
    return next((value for value in values if value is not None), None)
