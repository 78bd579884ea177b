"""Reading the request logs: a moment at a time, and with other settings from where it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vllm_observe.clock import Clock
from vllm_observe.config import RequestLog
from vllm_observe.errors import ConfigError, RecordError
from vllm_observe.model import Record
from vllm_observe.pipeline.totals import Totals, by
from vllm_observe.records.follow import Follower
from vllm_observe.records.formats import decoder
from vllm_observe.records.position import Positions
from vllm_observe.records.reader import RecordReader
from vllm_observe.records.source import Source, Start, Wrapper

__all__ = ["LogReading"]

#: How much is read between two looks at the clock.
_READ_AT_ONCE_BYTES = 1 << 18

_LINES = "vllm_observe_log_lines_total"
_UNPARSED = "vllm_observe_log_unparsed_total"
_UNREAD = "vllm_observe_log_unread_total"


class LogReading:
    """Reads the records of the request logs that are set.

    Args:
        logs: which.
        clock: tells the time.

    Raises:
        ConfigError: a field map is wrong.
    """

    def __init__(self, logs: Sequence[RequestLog], *, clock: Clock) -> None:
        self._clock = clock
        self._logs = logs
        self._reader = self._open(logs)
        self._before: Totals = {}  # what the readers before this one counted

    def _open(self, logs: Sequence[RequestLog]) -> RecordReader:
        sources = [_source(log, self._clock) for log in logs]
        return RecordReader(follower=Follower(sources=sources, clock=self._clock), clock=self._clock)

    def follow_others(self, logs: Sequence[RequestLog]) -> None:
        """Follow these logs from now on. Files that are followed already are read on from where they were.

        Raises:
            ConfigError: a field map is wrong; the logs of before are followed on.
        """
        reader = self._open(logs)
        self._before = self.totals()
        reader.follower.restore(self.positions())
        self._reader.follower.close()
        self._reader, self._logs = reader, logs

    def restore(self, positions: Positions) -> None:
        """Read on from where an earlier process was."""
        self._reader.follower.restore(positions)

    def look(self) -> None:
        """Find out which files there are and how far they are read by now, without reading any further."""
        self._reader.poll(0)

    def read(self, until: float) -> Iterator[Sequence[Record]]:
        """Read what is new, until a time of the monotonic clock at the latest; a piece at a time.

        There is always a piece, which may be empty.
        """
        yield self._reader.poll(_READ_AT_ONCE_BYTES)
        while self.is_behind and self._clock.monotonic() < until:
            yield self._reader.poll(_READ_AT_ONCE_BYTES)

    def search_now(self) -> None:
        """Look for new files with the next reading, whenever that was due."""
        self._reader.follower.search_now()

    def refuse(self, error: RecordError, event: str) -> None:
        """Count what came by another way and is no record, and tell it."""
        self._reader.refuse(error, event)

    def close(self) -> None:
        """Close the files."""
        self._reader.follower.close()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read at once."""
        return self._reader.follower.behind

    @property
    def bytes(self) -> int:
        """The bytes that were read since other logs were set, at least."""
        return self._reader.follower.counts.bytes

    def positions(self) -> Positions:
        """Return how far each file was read."""
        return self._reader.follower.positions()

    def lag(self) -> float | None:
        """Return for how many seconds a log has held what was not read; ``None`` where none is set."""
        return self._reader.follower.lag() if self._logs else None

    @property
    def waiting(self) -> int:
        """Files that are not followed because too many others are."""
        return self._reader.follower.counts.waiting

    @property
    def lines(self) -> int:
        """Lines that were read, since the start of the process."""
        return int(self.totals()[_LINES, ()])

    @property
    def unparsed(self) -> int:
        """Lines and spans that are no records, since the start of the process."""
        return int(sum(total for (name, _), total in self.totals().items() if name == _UNPARSED))

    def totals(self) -> Totals:
        """Return what was counted, since the start of the process."""
        read = _counted(self._reader)
        return {counted: self._before.get(counted, 0) + total for counted, total in read.items()}


def _counted(reader: RecordReader) -> Totals:
    """What a reader has counted since it was made, all of it from 0 on."""
    counts = reader.follower.counts
    own = {
        "lines": counts.lines,
        "bytes": counts.bytes,
        "rotations": counts.rotations,
        "truncations": counts.truncations,
        "open_errors": reader.follower.open_errors,
    }
    totals: Totals = {(f"vllm_observe_log_{name}_total", ()): total for name, total in own.items()}
    unread = by(_UNREAD, "reason", reader.follower.unread)
    return {**totals, **by(_UNPARSED, "reason", reader.unparsed), **unread}


def _source(log: RequestLog, clock: Clock) -> Source:
    try:
        decode = decoder(log, clock=clock)
    except ConfigError as error:
        raise ConfigError(f"request_logs: {log.path}: {error}") from None
    return Source(path=log.path, decode=decode, wrapper=Wrapper(log.wrapper), start=Start(log.start))
