"""One open store file: batches in, the oldest requests out. For one thread."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from vllm_observe.errors import ConfigError
from vllm_observe.model import EdgeRecord, EngineRecord, Limits
from vllm_observe.records.position import Positions
from vllm_observe.store.protocol import Progress
from vllm_observe.store.rows import RequestRow, read_record, write_json, write_record
from vllm_observe.store.schema import MIGRATIONS, is_store, migrate, version_of

__all__ = ["Bounds", "Database", "Delivery"]

_BUSY_S = 2.0
_CACHE_KIB = 16_384
#: The size to which SQLite truncates the write-ahead log after a checkpoint.
_WAL_BYTES = 16 * 1024 * 1024
#: Requests deleted, and pages returned to the file system, in one step: a few milliseconds each.
_DELETE_AT_ONCE = 500
_VACUUM_PAGES = 256
#: Free pages are reused. Only those beyond this share of the file are returned.
_KEEP_FREE = 0.1

_Record = EdgeRecord | EngineRecord


class Bounds(NamedTuple):
    """What a store may hold at most. The oldest requests are deleted first."""

    rows: int
    age_s: float
    bytes: int


class Delivery(NamedTuple):
    """A request's row, and the uids of the rows that it replaces; ``None`` for a request that is new."""

    row: RequestRow
    replaces: tuple[str, ...] | None


class Database:
    """A store file that is open for writing.

    Args:
        path: the file; made where there is none.
        migrations: the statements that bring it to each version.

    Raises:
        ConfigError: a newer program wrote it, or it is another program's.
        sqlite3.Error: it cannot be opened or written, or is damaged.

    Attributes:
        rows: requests in it.
    """

    def __init__(self, path: Path, *, migrations: Sequence[str] = MIGRATIONS) -> None:
        self._path = path
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(migrations)
            self.rows: int = self._one("SELECT count(*) FROM request")
            self._seq: int = self._one("SELECT coalesce(max(seq), 0) FROM request")
        except BaseException:
            self._connection.close()
            raise
        # The rows of the table of waiting records: the key of each by its record's identity. ``None`` until
        # this process has written the table.
        self._waiting: dict[int, tuple[int, _Record]] | None = None

    def _prepare(self, migrations: Sequence[str]) -> None:
        run = self._connection.execute
        version = version_of(self._connection)
        if self._one("SELECT count(*) FROM sqlite_master") and not is_store(self._connection):
            raise ConfigError(f"store (--store): {self._path} is another program's: name another file")
        if version > len(migrations):
            raise ConfigError(
                f"store (--store): {self._path} is of version {version}, this program knows "
                f"{len(migrations)}: update this program, or name another file"
            )
        run("PRAGMA auto_vacuum = INCREMENTAL")  # only heard in a file that is empty
        run("PRAGMA journal_mode = WAL").fetchone()
        run("PRAGMA synchronous = NORMAL")  # a loss of power takes the last batches, as a whole
        run(f"PRAGMA journal_size_limit = {_WAL_BYTES}").fetchone()
        run(f"PRAGMA cache_size = -{_CACHE_KIB}")
        migrate(self._connection, migrations)

    def _one(self, question: str) -> int:
        answer: int = self._connection.execute(question).fetchone()[0]
        return answer

    def check(self) -> None:
        """Look for damage, in all of the file: some seconds for a gigabyte.

        Raises:
            sqlite3.DatabaseError: it is damaged.
        """
        if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("its pages contradict each other")

    def complete(self) -> None:
        """Bring everything into the file itself, for one that was moved away: SQLite's close would not."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(sqlite3.Error):  # it is abandoned either way
            self._connection.close()

    # --- What is kept ----------------------------------------------------------------------------

    def write(self, deliveries: Iterable[Delivery], progress: Progress | None) -> None:
        """Keep requests and the progress that belongs to them: together, or nothing.

        Raises:
            sqlite3.Error: nothing was kept.
        """
        waiting = self._waiting
        with self._transaction():
            gained = sum(map(self._put, deliveries))
            if progress is not None:
                waiting = self._keep(progress)
        self.rows += gained
        self._waiting = waiting

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite itself takes back what a full disk cut short
                self._connection.execute("ROLLBACK")
            raise

    def _put(self, delivery: Delivery) -> int:
        """Insert a request; return by how many requests the tables have grown."""
        taken_out = self._take_out(delivery.replaces) if delivery.replaces is not None else []
        seq = min(taken_out, default=self._seq + 1)
        *columns, body = delivery.row
        put = self._connection.execute(
            "INSERT OR IGNORE INTO request VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (seq, *columns),
        )
        if not put.rowcount:  # it is there already: its lines were read again
            return -len(taken_out)
        self._connection.execute("INSERT INTO detail VALUES (?, ?)", (seq, body))
        self._seq = max(self._seq, seq)
        return 1 - len(taken_out)

    def _take_out(self, uids: tuple[str, ...]) -> list[int]:
        find = "SELECT seq FROM request WHERE uid = ?"
        found = [seq for uid in uids for (seq,) in self._connection.execute(find, (uid,)).fetchall()]
        self._delete(found)
        return found

    def _delete(self, seqs: list[int]) -> None:
        rows = [(seq,) for seq in seqs]
        self._connection.executemany("DELETE FROM request WHERE seq = ?", rows)
        self._connection.executemany("DELETE FROM detail WHERE seq = ?", rows)

    # --- How far the logs were read --------------------------------------------------------------

    def _keep(self, progress: Progress) -> dict[int, tuple[int, _Record]]:
        """Write what has changed in the tables of progress: most records wait for seconds only."""
        values = {"positions": progress.positions, "limits": progress.limits}
        self._connection.executemany(
            "INSERT OR REPLACE INTO progress VALUES (?, ?)",
            [(name, write_json(value)) for name, value in values.items()],
        )
        if self._waiting is None:
            self._connection.execute("DELETE FROM waiting")
        before = self._waiting or {}
        now = {id(record): record for record in progress.waiting}
        gone = [(key,) for identity, (key, _) in before.items() if identity not in now]
        self._connection.executemany("DELETE FROM waiting WHERE key = ?", gone)
        kept = {}
        for identity, record in now.items():
            known = before.get(identity)
            if known is None:
                put = self._connection.execute(
                    "INSERT INTO waiting (kind, body) VALUES (?, ?)", write_record(record)
                )
                known = (put.lastrowid or 0, record)
            kept[identity] = known
        return kept

    def resume(self) -> Progress | None:
        """Return the progress that was kept last; ``None`` in a new file.

        Raises:
            sqlite3.Error: the file is damaged.
        """
        kept = dict(self._connection.execute("SELECT name, body FROM progress").fetchall())
        waiting = self._connection.execute("SELECT kind, body FROM waiting ORDER BY key").fetchall()
        if not kept:
            return None
        try:
            return Progress(
                positions=msgspec.json.decode(kept["positions"], type=Positions),
                limits=msgspec.json.decode(kept["limits"], type=tuple[Limits, ...]),
                waiting=tuple(read_record(kind, body) for kind, body in waiting),
            )
        except (msgspec.MsgspecError, KeyError) as error:
            raise sqlite3.DatabaseError(f"its progress cannot be understood: {error}") from None

    # --- What goes -------------------------------------------------------------------------------

    def prune(self, bounds: Bounds, now: float) -> bool:
        """Delete some of the requests beyond the bounds; return whether there may be more.

        Raises:
            sqlite3.Error: nothing was deleted.
        """
        excess = self.rows - bounds.rows if self._used_bytes() <= bounds.bytes else self.rows
        most = min(_DELETE_AT_ONCE, max(0, excess))
        oldest = self._connection.execute(
            "SELECT seq, ended_at FROM request ORDER BY ended_at, seq LIMIT ?", (_DELETE_AT_ONCE,)
        ).fetchall()
        # Those beyond the bounds of rows and bytes are the first, as are those that are too old.
        too_old = sum(ended_at < now - bounds.age_s for _, ended_at in oldest)
        doomed = [seq for seq, _ in oldest[: max(most, too_old)]]
        if doomed:
            with self._transaction():
                self._delete(doomed)
            self.rows -= len(doomed)
        self._shrink()
        return len(doomed) == _DELETE_AT_ONCE

    def _used_bytes(self) -> int:
        """The file's size without its free pages, plus the largest write-ahead log."""
        pages = self._one("PRAGMA page_count") - self._one("PRAGMA freelist_count")
        return pages * self._one("PRAGMA page_size") + _WAL_BYTES

    def _shrink(self) -> None:
        """Return some free pages to the file system, where there are many."""
        if self._one("PRAGMA freelist_count") > _VACUUM_PAGES + _KEEP_FREE * self._one("PRAGMA page_count"):
            self._connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
