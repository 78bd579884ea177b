"""Record format 1 as tables: the fields of each kind of line, and how the value of each is taken.

A field that is not named here is never looked at, which is how prompts stay out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.model import EngineState
from vllm_observe.records import values

__all__ = ["EDGE", "ENGINE", "FIELDS", "LIMITS", "SAMPLE", "Field", "Table", "take", "wire_type"]


class Field(NamedTuple):
    """How one field is taken.

    ``convert`` takes anything that JSON can hold. ``usual`` is the type of a well-written line, which
    msgspec checks by itself; where ``checked``, such a value needs no converting any more.
    """

    convert: Callable[[Any, str], Any]
    usual: Any
    checked: bool = False


Table = Mapping[str, Field]


def take(table: Table, found: Mapping[str, Any], inside: str = "") -> dict[str, Any]:
    """Convert those fields of a table that are there and known.

    Raises:
        RecordError: a value cannot be taken, or is no Unicode; the message names its field, ``inside`` before it.
    """
    taken = {}
    for name, field in table.items():
        value = found.get(name)
        if isinstance(value, str) and not _is_unicode(value):
            raise RecordError(UnparsedReason.NOT_UTF8, f"{inside}{name} is not UTF-8")
        if value is not None and (made := field.convert(value, inside + name)) is not None:
            taken[name] = made
    return taken


def _is_unicode(value: str) -> bool:
    """Say whether no bad byte and no half of a surrogate pair stands in a text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def wire_type(name: str, table: Table) -> type[msgspec.Struct]:
    """Make the type that a well-written line of a kind decodes into, every field optional."""
    return msgspec.defstruct(name, [(field, how.usual | None, None) for field, how in table.items()])


_TEXT = Field(values.text, str)
_MOMENT = Field(values.moment, float | str)
_SECONDS = Field(values.seconds, Annotated[float, Meta(ge=0, le=values.LONGEST_S)], checked=True)
_COUNT = Field(values.count, Annotated[int, Meta(ge=0, le=values.MOST)], checked=True)
_LIMIT = Field(values.limit, Annotated[int, Meta(ge=1, le=values.MOST)], checked=True)
_LEVEL = Field(values.level, Annotated[float, Meta(ge=0, le=values.MOST)], checked=True)
_RATIO = Field(values.ratio, Annotated[float, Meta(ge=0, le=1)], checked=True)
_FLAG = Field(values.flag, bool, checked=True)

_STATE: Table = {
    "running": _LEVEL,
    "waiting": _LEVEL,
    "waiting_capacity": _LEVEL,
    "waiting_deferred": _LEVEL,
    "kv_usage": _RATIO,
}
_StateWire = wire_type("StateWire", _STATE)


def _state(value: Any, field: str) -> EngineState:
    if isinstance(value, _StateWire):
        return EngineState(**msgspec.structs.asdict(value))
    if not isinstance(value, Mapping):
        raise values.bad(field, "is no object")
    return EngineState(**take(_STATE, value, f"{field}."))


EDGE: Table = {
    "ts": _MOMENT,
    "request_id": Field(values.identity, str),
    "session_id": _TEXT,
    "profile": _TEXT,
    "client": _TEXT,
    "model": _TEXT,
    "path": Field(values.path, str),
    "stream": _FLAG,
    "status": Field(values.status, Annotated[int, Meta(ge=100, le=599)], checked=True),
    "outcome": _TEXT,
    "error": Field(values.error_code, Any),
    "finish_reason": _TEXT,
    "duration_s": _SECONDS,
    "ttft_s": _SECONDS,
    "prompt_tokens": _COUNT,
    "completion_tokens": _COUNT,
    "cached_tokens": _COUNT,
    "max_tokens": _COUNT,
    "queue_depth": _COUNT,
    "trace_id": Field(values.trace_id, str),
}
ENGINE: Table = {
    "ts": _MOMENT,
    "request_id": Field(values.identity, str),
    "model": _TEXT,
    "engine": _TEXT,
    "finish_reason": _TEXT,
    "e2e_s": _SECONDS,
    "queue_s": _SECONDS,
    "prefill_s": _SECONDS,
    "decode_s": _SECONDS,
    "tpot_s": _SECONDS,
    "prompt_tokens": _COUNT,
    "completion_tokens": _COUNT,
    "cached_tokens": _COUNT,
    "preemptions": _COUNT,
    "max_tokens": _COUNT,
    "state": Field(_state, _StateWire),
}
SAMPLE: Table = {
    "ts": _MOMENT,
    "model": _TEXT,
    "engine": _TEXT,
    "running": _LEVEL,
    "waiting": _LEVEL,
    "waiting_capacity": _LEVEL,
    "waiting_deferred": _LEVEL,
    "kv_usage": _RATIO,
    "awake": _FLAG,
    "prompt_tokens": _LEVEL,
    "generation_tokens": _LEVEL,
    "started": _LEVEL,
    "finished": _LEVEL,
    "preemptions": _LEVEL,
    "steps": _LEVEL,
    "step_tokens": _LEVEL,
}
LIMITS: Table = {
    "engine": _TEXT,
    "max_num_seqs": _LIMIT,
    "max_num_active_seqs": _LIMIT,
    "max_num_batched_tokens": _LIMIT,
    "max_model_len": _LIMIT,
    "num_gpu_blocks": _LIMIT,
    "block_size": _LIMIT,
    "vllm_version": _TEXT,
}

#: Every name that a line may use: what a field map may fill.
FIELDS = frozenset(("kind", *EDGE, *ENGINE, *SAMPLE, *LIMITS))
