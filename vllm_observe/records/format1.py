"""Record format 1: one line of JSON to one record, or the reason why not.

A record's outcome is what its line says, unless the line also says worse: HTTP 200 with the finish
reason ``abort`` is an abort, ``"outcome":"ok"`` with status 500 is an error. A line that says nothing
of how the request ended (no outcome, no status, no error, no finish reason that anybody knows) is no
record, whatever else it tells: many apps log the start of a request as well, and a duration and tokens
are had by requests that were cut off. An engine's line without it is one part of a request all the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.model import (
    EdgeRecord,
    EngineKey,
    EngineRecord,
    EngineSample,
    Limits,
    LimitsSource,
    Outcome,
    Record,
    outcome_of,
)
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.lines import MAX_LINE_BYTES
from vllm_observe.records.schema import EDGE, ENGINE, LIMITS, SAMPLE, Table, take, wire_type
from vllm_observe.records.values import bad

__all__ = ["build", "decode", "load"]

_BOM = b"\xef\xbb\xbf"

#: Python reads no integer of over 4,300 digits; none of our fields needs more than these.
_MOST_DIGITS = 100

_GOOD_STATUSES, _STATUS_FAILED = range(200, 400), 400  # one under 200 comes before the answer
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_BY_STATUS = {
    0: Outcome.ABORT,  # nginx and Envoy: the connection ended before there was an answer
    408: Outcome.TIMEOUT,
    429: Outcome.REJECTED,
    499: Outcome.ABORT,  # nginx: the client closed the request
    503: Outcome.REJECTED,
    504: Outcome.TIMEOUT,
}


def decode(line: bytes, fields: FieldMap | None = None) -> Record:
    """Decode one line, its newline cut off.

    A line is of the kind that it names, else an edge record. What Python's ``json`` writes though
    JSON has it not is let pass where it does no harm: control characters and halves of surrogate
    pairs inside strings, NaN in a field that is not ours.

    Raises:
        RecordError: it is no record; ``reason`` says why, and the message holds none of its values.
    """
    if fields is None and len(line) <= MAX_LINE_BYTES:
        try:
            kind = _KIND.decode(line).kind if b'"kind"' in line else None
            form = _form(kind)
            return form.read(form.decoder.decode(line))
        except (msgspec.DecodeError, RecursionError):
            pass  # the slow way lets it pass, or tells what is wrong
    found = load(line)
    return build(found if fields is None else fields.apply(found))


def build(named: Mapping[str, Any]) -> Record:
    """Make a record of fields that have the names of format 1, whatever types they have.

    Raises:
        RecordError: it is no record.
    """
    form = _form(named.get("kind"))
    return form.build(take(form.table, named))


def load(line: bytes) -> dict[str, Any]:
    """Read the JSON object of a line, as tolerantly as `decode` says.

    Raises:
        RecordError: it holds none.
    """
    if len(line) > MAX_LINE_BYTES:
        raise RecordError(UnparsedReason.TOO_LONG, f"a line of {len(line)} bytes")
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        found = _load_tolerantly(line.removeprefix(_BOM))
    if not isinstance(found, dict):
        raise RecordError(UnparsedReason.NOT_OBJECT, "JSON, but no object")
    return found


def _load_tolerantly(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "surrogateescape"), strict=False, parse_int=_integer)
    except RecursionError:
        raise RecordError(UnparsedReason.NOT_JSON, "nested too deeply") from None
    except ValueError:
        pass
    try:
        line.decode()
    except UnicodeDecodeError:
        raise RecordError(UnparsedReason.NOT_UTF8, "neither UTF-8 nor JSON") from None
    raise RecordError(UnparsedReason.NOT_JSON, "no whole JSON object") from None


def _integer(digits: str) -> float:
    return int(digits) if len(digits) <= _MOST_DIGITS else math.inf


# --- The kinds of lines --------------------------------------------------------------------------


class _Kind(msgspec.Struct):
    kind: Any = None


class _Form:
    """One kind of line: its fields, and what makes a record of them."""

    def __init__(self, kind: str, table: Table, build: Callable[[dict[str, Any]], Record]) -> None:
        self.table = table
        self.build = build
        self.decoder = msgspec.json.Decoder(wire_type(f"{kind.title()}Wire", table))
        self._fields = tuple((name, None if how.checked else how.convert) for name, how in table.items())

    def read(self, wire: msgspec.Struct) -> Record:
        """Build the record of a well-written line, converting only what msgspec could not check."""
        taken = {}
        for name, convert in self._fields:
            value = getattr(wire, name)
            if value is not None and convert is not None:
                value = convert(value, name)
            if value is not None:
                taken[name] = value
        return self.build(taken)


def _edge(taken: dict[str, Any]) -> EdgeRecord:
    _require(taken, "ts", "request_id")
    outcome = _outcome(taken)
    taken.pop("finish_reason", None)
    taken["status"] = taken.get("status") or None
    taken["outcome"] = outcome
    return EdgeRecord(**taken)


def _engine(taken: dict[str, Any]) -> EngineRecord:
    _require(taken, "ts", "request_id")
    return EngineRecord(**taken)


def _sample(taken: dict[str, Any]) -> EngineSample:
    _require(taken, "ts", "model")
    key = EngineKey(taken.pop("model"), taken.pop("engine", "0"))
    return EngineSample(at=taken.pop("ts"), key=key, **taken)


def _limits(taken: dict[str, Any]) -> Limits:
    if not taken.keys() - {"engine", "vllm_version"}:
        raise RecordError(UnparsedReason.MISSING_FIELD, "a limits line without a limit")
    return Limits(source=LimitsSource.PLUGIN, **taken)


def _require(taken: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if name not in taken:
            raise RecordError(UnparsedReason.MISSING_FIELD, f"{name} is missing")


def _outcome(taken: Mapping[str, Any]) -> Outcome:
    stated = _stated(taken.get("outcome"))
    if stated not in (None, Outcome.OK):
        return stated
    error = Outcome.ERROR if "error" in taken else None
    said = (stated, outcome_of(taken.get("finish_reason")), _by_status(taken.get("status")), error)
    known = [outcome for outcome in said if outcome is not None]
    if not known:
        raise RecordError(UnparsedReason.MISSING_FIELD, "status or outcome is missing: how did it end?")
    return next((outcome for outcome in known if outcome is not Outcome.OK), Outcome.OK)


def _stated(word: str | None) -> Outcome | None:
    if word is None:
        return None
    if (stated := _OUTCOMES.get(word.lower())) is None:
        raise bad("outcome", f"is none of {', '.join(_OUTCOMES)}")
    return stated


def _by_status(status: int | None) -> Outcome | None:
    if status is None:
        return None
    if status in _GOOD_STATUSES:
        return Outcome.OK
    return _BY_STATUS.get(status, Outcome.ERROR if status >= _STATUS_FAILED else None)


_KIND = msgspec.json.Decoder(_Kind)
_EDGE = _Form("edge", EDGE, _edge)
_FORMS = {
    "edge": _EDGE,
    "engine": _Form("engine", ENGINE, _engine),
    "sample": _Form("sample", SAMPLE, _sample),
    "limits": _Form("limits", LIMITS, _limits),
}


def _form(kind: object) -> _Form:
    if kind is None:
        return _EDGE
    form = _FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise RecordError(UnparsedReason.UNKNOWN_KIND, f"kind is none of {', '.join(_FORMS)}")
    return form
