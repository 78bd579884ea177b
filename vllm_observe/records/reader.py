"""From the lines of all logs to records, with everything counted that is none."""

from __future__ import annotations

from collections import Counter

from vllm_observe.clock import Clock
from vllm_observe.errors import RecordError, UnparsedReason
from vllm_observe.logs import EventLog
from vllm_observe.model import Record
from vllm_observe.records.follow import Follower
from vllm_observe.records.format1 import decode
from vllm_observe.records.shown import RateLimit, show
from vllm_observe.records.source import Line

__all__ = ["RecordReader"]


class RecordReader:
    """Reads records from followed files; a line that is none is counted and shown, and that is all.

    Attributes:
        follower: where the lines come from; it counts lines, bytes, rotations and truncations.
        unparsed: lines that are no record, by reason.
    """

    def __init__(self, *, follower: Follower, clock: Clock) -> None:
        self.follower = follower
        # Every reason from the start: other threads read this, and a new key would trip them up.
        self.unparsed: Counter[UnparsedReason] = Counter(dict.fromkeys(UnparsedReason, 0))
        self._log = EventLog("records")
        self._limits = {reason: RateLimit(clock) for reason in UnparsedReason}

    def poll(self, max_bytes: int = 1 << 22) -> list[Record]:
        """Read the records that were written since the last poll, from about so many bytes at most."""
        lines = self.follower.poll(max_bytes)
        records = [record for line in lines if (record := self._decoded(line)) is not None]
        for reason, limit in self._limits.items():
            if held := limit.held_back():
                self._log.warning("more lines are no records", reason=reason.value, lines=held)
        return records

    def _decoded(self, line: Line) -> Record | None:
        try:
            if line.whole:
                return decode(line.data, line.source.fields)
            error = RecordError(UnparsedReason.TOO_LONG, "the line is over the cap")
        except RecordError as refused:
            error = refused
        self.unparsed[error.reason] += 1
        if self._limits[error.reason].passes():
            self._log.warning(
                "a line is no record",
                reason=error.reason.value,
                why=str(error),
                path=line.path,
                byte=line.start,
                shape=show(line.data),
            )
        return None
