"""An open file, and what is known about it from outside."""

from __future__ import annotations

import dataclasses

import msgspec

from vllm_observe.records.files import FileStat
from vllm_observe.records.gunzip import Gunzipped
from vllm_observe.records.position import Position
from vllm_observe.records.tail import Tail

__all__ = ["Watched"]

#: Seconds for which a file is read at every poll after a change. A file system's times may be coarse:
#: what is written right after a look need not change the time that the look saw.
_SETTLED_AFTER_S = 2.0
#: Seconds for which a file without a name stays open: its writer may not have noticed yet.
_GONE_AFTER_S = 30.0


@dataclasses.dataclass
class Watched:
    """One file that is open. Times are seconds of the monotonic clock."""

    tail: Tail
    stat: FileStat  # as of the last look
    changed_at: float
    opened_as: str  # the path that led to it when it was found
    after: Watched | None = None  # the file that was found by that path before, until it was read
    changed: bool = True  # since it was last read
    fresh: bool = True  # nothing was read of it, because nobody knows yet whether it is new
    named: bool = True  # as far as was seen, its path leads to it
    gone_since: float | None = None
    behind_since: float | None = None
    served: int = 0  # the look after which it last had a turn
    written_ns: int = 0  # its time when it was last read, or from when on it was looked for
    skips: bool = False  # what is in it by now is not wanted

    def __post_init__(self) -> None:
        """Take what is in it as not read yet.

        The time of a rotation that is being compressed falls back to the log's when that is done.
        """
        self.written_ns = self.written_ns or self.stat.modified_ns

    @property
    def is_archive(self) -> bool:
        """Whether it is compressed: all that will ever be in it is there, once its writer is done."""
        return isinstance(self.tail.file, Gunzipped)

    @property
    def is_rotation(self) -> bool:
        """Whether it was last seen under another name than the log's."""
        return self.tail.path != self.opened_as

    def position(self) -> Position:
        """Say how far it was read, of which log, and when what was read of it had been written."""
        whole = self.is_read() and not self.fresh
        return msgspec.structs.replace(
            self.tail.position(),
            path=self.opened_as,
            written_ns=self.written_ns,
            whole=whole,
            rest=not whole or (self.named and not self.is_rotation),
        )

    def saw(self, stat: FileStat, now: float) -> bool:
        """Take a new look at the file; say whether it has changed."""
        changed = (stat.size, stat.modified_ns) != (self.stat.size, self.stat.modified_ns)
        if changed:
            self.changed, self.changed_at = True, now
        self.stat = stat
        return changed

    def was_read(self, now: float) -> None:
        """Note that it was read, to its end or not."""
        self.changed = False
        self.written_ns = self.stat.modified_ns
        if self.tail.at_end:
            self.behind_since = None
        else:
            self.is_behind(now)

    def is_behind(self, now: float) -> None:
        """Note that there is more to read."""
        if self.behind_since is None:
            self.behind_since = now

    def begins_anew(self) -> None:
        """Note that nothing of it is sure, since not all that was read is in it any more."""
        if not self.fresh:
            self.tail.cut_off(self.position())
        if isinstance(self.tail.file, Gunzipped):
            self.tail.file = self.tail.file.raw
        self.stat = self.tail.file.stat()
        self.fresh = self.changed = True
        self.behind_since = None

    def is_named(self, path: str) -> None:
        """Note that a path leads to it."""
        self.tail.path, self.named, self.gone_since = path, True, None

    def has_no_name(self, now: float) -> None:
        """Note that nobody finds it any more."""
        if self.gone_since is None:
            self.gone_since = now

    def is_read(self) -> bool:
        """Say whether there is nothing to read, as of the last look."""
        return not self.changed and (self.fresh or self.tail.at_end)

    def is_idle(self, now: float) -> bool:
        """Say whether there is nothing to read, and it was left alone for long enough to be sure."""
        return self.is_read() and now - self.changed_at > _SETTLED_AFTER_S

    def is_written(self, now: float) -> bool:
        """Say whether somebody may still be writing to it."""
        return now - self.changed_at < _SETTLED_AFTER_S

    def is_over(self, now: float) -> bool:
        """Say whether nobody finds it any more, and whoever has it open had time to finish."""
        if self.gone_since is None or not self.is_read():
            return False
        return now - max(self.gone_since, self.changed_at) >= _GONE_AFTER_S
