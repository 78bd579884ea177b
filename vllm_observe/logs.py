"""The sidecar's own log: one event a line, JSON where no person watches.

An event is a short message that never changes plus fields that do, so that a log search finds all
of its kind: ``log.warning("scrape failed", reason="timeout")``.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Literal, TextIO

__all__ = ["EventLog", "Faults", "configure"]

_ROOT = "vllm_observe"


class EventLog:
    """Writes events of one part of the program."""

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{part}")

    def debug(self, event: str, **fields: object) -> None:
        """Tell what only a developer wants to know."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Tell what happened as it should."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Tell what a person may have to mend."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Tell what a person has to mend."""
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, error: BaseException, **fields: object) -> None:
        """Tell of a fault of our own: its type and its place, not its text, which may quote input."""
        self._write(logging.ERROR, event, {"fault": type(error).__name__, "at": _place(error), **fields})

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields})


class Faults:
    """Faults of our own that did no more harm than they had to: all are counted, each is told once.

    What fails for one record may well fail for the next thousand, and none of them shall fill a disk.

    Attributes:
        count: faults so far.
    """

    def __init__(self, log: EventLog) -> None:
        self.count = 0
        self._log = log
        self._told: set[tuple[type, str]] = set()  # bounded by the lines of the program

    def survived(self, error: Exception, **fields: object) -> None:
        """Count a fault, and tell it where none of its type was told of its place."""
        self.count += 1
        fault = (type(error), _place(error))
        if fault not in self._told:
            self._told.add(fault)
            self._log.exception("fault", error, **fields)


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, tz=timezone.utc).isoformat(timespec="milliseconds")
        fields: dict[str, object] = getattr(record, "fields", {})
        return self.line(when.replace("+00:00", "Z"), record, fields)

    def line(self, when: str, record: logging.LogRecord, fields: dict[str, object]) -> str:
        raise NotImplementedError


class _Json(_Formatter):
    def line(self, when: str, record: logging.LogRecord, fields: dict[str, object]) -> str:
        event = {
            "ts": when,
            "level": record.levelname.lower(),
            "part": record.name.removeprefix(_ROOT + "."),
            "event": record.getMessage().strip(),
        }
        return json.dumps(event | fields, default=str)


class _Text(_Formatter):
    def line(self, when: str, record: logging.LogRecord, fields: dict[str, object]) -> str:
        # json.dumps escapes what would break the line or move a terminal's cursor
        told = "".join(f"  {name}={json.dumps(value, default=str)}" for name, value in fields.items())
        return f"{when[11:23]} {record.levelname.lower():<7} {record.getMessage().strip()}{told}"


def configure(
    *,
    form: Literal["auto", "json", "text"] = "auto",
    level: Literal["debug", "info", "warning", "error"] = "info",
    stream: TextIO | None = None,
) -> None:
    """Send this package's events to a stream, standard error by default.

    Args:
        form: how a line looks; ``auto`` is text on a terminal and JSON elsewhere.
        level: the least that is written.
        stream: where to.
    """
    stream = stream or sys.stderr
    text = form == "text" or (form == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Text() if text else _Json())
    logging.getLogger(_ROOT).setLevel(level.upper())
    # What a library has to say is an event as well: a line of another form breaks who reads these.
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
