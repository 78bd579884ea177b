"""vLLM's own log: its lines about requests. It says the least of all sources; its prompts are not kept.

Requests are logged with ``--enable-log-requests`` (by default up to 0.10.0): their arrival, abort or
failure. No release of the V1 engine logs a good end, unless ``--enable-log-outputs`` is on: an arrival is
a record that has not ``ended``. Times are whole seconds in the host's own zone, so no durations are
computed from them.

A prompt or an id can hold what looks like a line of this log. Such a line is believed only where

- it was written by the module of vLLM's that writes such lines,
- its message is whole: a prompt is quoted in it, and its newlines are escaped, and
- it does not follow a cut message with the very same prefix: vLLM repeats the prefix before each line
  of a message of several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.model import EngineRecord
from vllm_observe.records.formats import vllm_messages
from vllm_observe.records.lines import MAX_LINE_BYTES
from vllm_observe.records.times import AHEAD_S

__all__ = ["VllmLog"]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: A text line of 0.6 to 0.33: process (since 0.10.1), level, time, place (in brackets since 0.7).
_PREFIX = re.compile(
    r"(?:\([A-Za-z][\w.:-]* pid=\d+\) )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) "
    r"(?P<time>\d\d-\d\d \d\d:\d\d:\d\d) \[?(?P<module>[\w./-]{1,100})\.py:\d+\] "
)
_JSON_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,]([0-9]{1,6}))?")

_SUFFIX = re.compile(r"-[0-9a-f]{8}\Z")
_ABORTS_KEPT = 1024
#: 29 February comes every eighth year at least.
_YEARS = 9


class _Entry(NamedTuple):
    """One line of the log, whatever its form."""

    prefix: str
    module: str  # the file that wrote it, without folder and ending
    at: Callable[[], float]  # epoch seconds
    message: str


class _JsonEntry(msgspec.Struct):
    """The same in JSON, as far as it is read."""

    message: str = ""
    name: str = ""
    asctime: str = ""


_JSON = msgspec.json.Decoder(_JsonEntry)


class VllmLog:
    """Decodes the lines of one vLLM's log, text or JSON.

    Args:
        clock: tells the year that a text line leaves out.
        zone: of the host that vLLM runs on; this host's by default.
    """

    def __init__(self, *, clock: Clock, zone: tzinfo | None = None) -> None:
        self._clock = clock
        self._zone = zone
        self._cut = ""  # the prefix of a message of which only the first lines have come
        self._aborted: dict[str, None] = {}  # logged by the engine's id, and not yet by the client's

    def __call__(self, line: bytes) -> Sequence[EngineRecord]:
        """Decode one line; most are not about a request.

        Raises:
            RecordError: it begins like a line about a request and continues like none of a known release.
        """
        if len(line) > MAX_LINE_BYTES:
            raise RecordError(UnparsedReason.TOO_LONG, f"a line of {len(line)} bytes")
        if b"equest" not in line and b"Generated" not in line:
            return ()
        entry = self._json(line) if line.startswith(b"{") else self._text(line)
        if entry is None or (self._cut and entry.prefix == self._cut):
            return ()
        # JSON has no prefix, and needs none: a line of it is a whole message.
        self._cut = "" if vllm_messages.is_whole(entry.message) else entry.prefix
        event = vllm_messages.read(entry.module, entry.message)
        if event is None:
            self._cut = ""
            return ()
        at = entry.at()
        return [
            EngineRecord(
                ts=at,
                request_id=request_id,
                completed=event.completed,
                finish_reason=event.finish_reason,
                max_tokens=event.max_tokens,
                completion_tokens=event.completion_tokens,
            )
            for request_id in event.ids
            if event.finish_reason != "abort" or self._is_news(request_id, by_client=event.by_client)
        ]

    def _is_news(self, request_id: str, *, by_client: bool) -> bool:
        """Return whether an abort is new: V1 logs each by the engine's id, then again by the client's."""
        if by_client:
            known = request_id in self._aborted
            self._aborted.pop(request_id, None)
            return not known
        self._aborted |= dict.fromkeys((request_id, _SUFFIX.sub("", request_id)))
        while len(self._aborted) > _ABORTS_KEPT:
            del self._aborted[next(iter(self._aborted))]
        return True

    def _text(self, line: bytes) -> _Entry | None:
        text = _COLOUR.sub("", line.decode("utf-8", "replace"))
        if (found := _PREFIX.match(text)) is None:
            return None
        module = found["module"].rpartition("/")[2]
        return _Entry(found[0], module, lambda: self._without_year(found["time"]), text[found.end() :])

    def _json(self, line: bytes) -> _Entry | None:
        """Read a line of ``--logging-config.formatter json``, or of a formatter with the same names."""
        try:
            found = _JSON.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return None
        if (time := _JSON_TIME.match(found.asctime)) is None:
            return None
        module = found.name.rpartition(".")[2]
        fraction = float(f"0.{time[3] or 0}")
        return _Entry("", module, lambda: self._at(f"{time[1]} {time[2]}") + fraction, found.message)

    def _without_year(self, time: str) -> float:
        """Take the latest year that does not put a time into the future, but for a clock's difference."""
        latest = self._clock.wall() + AHEAD_S
        year = datetime.fromtimestamp(latest, self._zone).year
        times = (self._epoch(f"{year - back}-{time}") for back in range(_YEARS))
        return _known(next((at for at in times if at is not None and at <= latest), None))

    def _at(self, time: str) -> float:
        return _known(self._epoch(time))

    def _epoch(self, time: str) -> float | None:
        try:
            moment = datetime.strptime(time, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007  # the zone comes next
            return moment.replace(tzinfo=self._zone).timestamp()
        except (ValueError, OverflowError):
            return None


def _known(at: float | None) -> float:
    if at is None or at < 0:
        raise RecordError(UnparsedReason.BAD_FIELD, "its time is none")
    return at
