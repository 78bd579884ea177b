"""From the lines of all logs to records, with everything counted that is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.logs import EventLog
from vllm_observe.model import EdgeRecord, EngineRecord, Record
from vllm_observe.records.follow import Follower
from vllm_observe.records.shown import RateLimit, show
from vllm_observe.records.source import Line, Source
from vllm_observe.records.values import check_clock

__all__ = ["RecordReader"]


class RecordReader:
    """Reads records from followed files; a line that is none is counted and shown, and that is all.

    Attributes:
        follower: where the lines come from; it counts lines, bytes, rotations and truncations.
        unparsed: lines that are no record, by reason.
    """

    def __init__(self, *, follower: Follower, clock: Clock) -> None:
        self.follower = follower
        self._clock = clock
        # Every reason from the start: other threads read this, and a new key would trip them up.
        self.unparsed: Counter[UnparsedReason] = Counter(dict.fromkeys(UnparsedReason, 0))
        self._log = EventLog("records")
        self._limits = {reason: RateLimit(clock) for reason in UnparsedReason}

    def poll(self, max_bytes: int = 1 << 22) -> list[Record]:
        """Read the records that were written since the last poll, from about so many bytes at most."""
        lines = self.follower.poll(max_bytes)
        records = [record for line in lines for record in self._decoded(line)]
        for reason, limit in self._limits.items():
            if held := limit.held_back():
                self._log.warning("more lines are no records", reason=reason.value, lines=held)
        return records

    def _decoded(self, line: Line) -> Sequence[Record]:
        try:
            if line.whole:
                return [self._believed(record, line.source) for record in line.source.decode(line.data)]
            error = RecordError(UnparsedReason.TOO_LONG, "the line is over the cap")
        except RecordError as refused:
            error = refused
        self.refuse(error, "a line is no record", path=line.path, byte=line.start, shape=show(line.data))
        return ()

    def _believed(self, record: Record, source: Source) -> Record:
        """Check when a record that was just made says it was, and note on it where it was read."""
        if isinstance(record, EdgeRecord | EngineRecord):
            check_clock(record.ts, self._clock.wall())
            msgspec.structs.force_setattr(record, "source", source.path)
        return record

    def refuse(self, error: RecordError, event: str, **place: object) -> None:
        """Count what is no record; tell it, and its place, unless much was told already."""
        self.unparsed[error.reason] += 1
        if self._limits[error.reason].passes():
            self._log.warning(event, reason=error.reason.value, why=str(error), **place)
