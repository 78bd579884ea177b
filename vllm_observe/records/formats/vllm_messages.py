"""The messages about requests in vLLM's own log, in the wording of releases 0.6 to 0.33."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.records.values import identity

__all__ = ["RequestEvent", "is_whole", "read"]


class RequestEvent(NamedTuple):
    """What a message reports of one request, or of several alike."""

    ids: Sequence[str]
    finish_reason: str | None = None
    completed: bool = False  # a good end without a reason
    max_tokens: int | None = None
    completion_tokens: int | None = None
    by_client: bool = False  # an abort by the client's id; V1 logs it by the engine's id before


def read(module: str, message: str) -> RequestEvent | None:
    """Read a message; ``None`` where it is not about a request.

    Args:
        module: the file that wrote it, without folder and ending: others quote what looks like it.
        message: one line of the log, without its prefix.

    Raises:
        RecordError: it begins like a message about a request and continues like none of a known release.
    """
    for start, modules, rest in _MESSAGES:
        if module in modules and (begun := start.match(message)):
            event = rest(begun, message[begun.end() :])
            if event is None:
                raise RecordError(UnparsedReason.BAD_FIELD, "a message on a request, cut or of another form")
            return event
    return None


def is_whole(message: str) -> bool:
    """Say whether a message on a request ends in its line: on a full stop, or on a finish reason."""
    return _END.search(message) is not None


_END = re.compile(r"\.\Z|finish_reason: \w+\Z")
#: What stands in quotes in the representation of a Python value, or to the end where it is cut:
#: prompts, stop words, outputs.
_QUOTED = re.compile(
    r"""'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)""",
    re.DOTALL,
)
_MAX_TOKENS = re.compile(r"\bmax_tokens=(\d{1,15})\b")
_OUTPUT_TOKENS = re.compile(r"output_token_ids: [\[(]([\d, ]*)[\])]")
_FINISH_REASON = re.compile(r"finish_reason: (\w{1,40})\Z")
#: What stands for a finish reason and is none of the engine's.
_STREAM_COMPLETE = "streaming_complete"
_STREAM_ENDS = {_STREAM_COMPLETE: None, "streaming_error": "error", "None": None}

#: Reads what follows a message's beginning; None where it is not whole.
_Rest = Callable[[re.Match[str], str], RequestEvent | None]


def _id(written: str) -> str:
    return identity(written, "request_id") or written


def _received(begun: re.Match[str], rest: str) -> RequestEvent | None:
    rest = _QUOTED.sub("''", rest)
    if not rest.endswith(".") or "lora_request: " not in rest:
        return None
    limit = _MAX_TOKENS.search(rest)
    return RequestEvent([_id(begun["id"])], max_tokens=int(limit[1]) if limit else None)


def _generated(begun: re.Match[str], rest: str) -> RequestEvent | None:
    if begun["part"] == "delta":
        return RequestEvent(())
    rest = _QUOTED.sub("''", rest)
    reason = _FINISH_REASON.search(rest)
    if reason is None:
        return None
    tokens = _OUTPUT_TOKENS.search(rest)
    count = None if tokens is None else len(tokens[1].split(",")) if tokens[1].strip() else 0
    return RequestEvent(
        [_id(begun["id"])],
        finish_reason=_STREAM_ENDS.get(reason[1], reason[1]),
        completed=reason[1] == _STREAM_COMPLETE,
        completion_tokens=count,
    )


def _aborted(begun: re.Match[str], rest: str) -> RequestEvent | None:
    if rest:
        return None
    return RequestEvent([_id(name) for name in begun["id"].split(",") if name], finish_reason="abort")


def _left(begun: re.Match[str], rest: str) -> RequestEvent | None:
    return None if rest else RequestEvent([_id(begun["id"])], finish_reason="abort", by_client=True)


def _finished(begun: re.Match[str], rest: str) -> RequestEvent | None:
    return None if rest else RequestEvent([_id(begun["id"])], completed=True)


def _failed(begun: re.Match[str], _: str) -> RequestEvent:
    return RequestEvent([_id(begun["id"])], finish_reason="error")


_LOGGERS = frozenset(("logger", "request_logger"))
_ENGINES = frozenset(("async_llm", "async_llm_engine", "engine"))

#: How a message of each kind begins, the modules that write it, and what reads the rest.
_MESSAGES: tuple[tuple[re.Pattern[str], frozenset[str], _Rest], ...] = (
    (re.compile(r"Received request (?P<id>\S+?): (?=prompt: |params: )"), _LOGGERS, _received),
    (
        re.compile(r"Generated response (?P<id>\S+?)(?: \(streaming (?P<part>\w+)\))?: (?=output: )"),
        _LOGGERS,
        _generated,
    ),
    (re.compile(r"Aborted request(?:\(s\))? (?P<id>\S+)\."), _ENGINES, _aborted),
    (re.compile(r"Request (?P<id>\S+) aborted\."), _ENGINES, _left),
    (re.compile(r"Finished request (?P<id>\S+)\."), _ENGINES, _finished),
    (re.compile(r"Request (?P<id>\S+) failed\b"), _ENGINES, _failed),
)
