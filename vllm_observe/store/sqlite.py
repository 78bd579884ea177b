"""A store in one SQLite file, written in the background: no other work of the sidecar waits for it.

**Exactly once.** A sidecar may be killed at any moment. What it knows then is in three places: requests
that the join has handed out, records that wait in the join, and how far the logs were read. All three
are written in one transaction, as they were between two readings. So whatever a kill leaves behind is
of one moment: the next sidecar reads the logs on from the positions, puts the waiting records back
into the join, and makes the requests that would have been made. No line has to be read twice, so
nothing is lost with a log that was rotated away meanwhile. The join also gets back its memory of what
it has handed out, from the requests stored last, so that a part which comes after the restart amends
its request instead of making a second one.

Each request has a permanent name, its ``uid``, which is computed from its records and unique in the
table. Lines that are read again all the same, because an old log was put back, change nothing.

**Failures of files** are logged once, counted, and stop nothing: writing to a full or a read-only disk is
retried after longer and longer waits while requests gather in memory up to a bound; a damaged file is
set aside and a new one begun; where somebody deleted or replaced a file, the store is opened again.
What only another setting mends is no failure: a store that cannot be one is refused at the start.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from vllm_observe.clock import Clock
from vllm_observe.errors import ConfigError
from vllm_observe.logs import EventLog
from vllm_observe.model import JoinedRequest
from vllm_observe.store.database import Bounds, Database, Delivery
from vllm_observe.store.place import Place
from vllm_observe.store.protocol import Progress
from vllm_observe.store.rows import write_request
from vllm_observe.store.schema import MIGRATIONS
from vllm_observe.store.sqlite_reader import SqliteReader, is_damage

__all__ = ["MOST_UNWRITTEN", "SqliteStore"]

#: Requests kept in memory while the disk takes none; of more, the oldest are dropped. About 40 MB.
MOST_UNWRITTEN = 10_000
#: Seconds after which a write that has not returned counts as a disk that takes none.
_STUCK_S = 30.0
#: The longest time spent on deleting the oldest requests after each write.
_PRUNE_FOR_S = 0.1
#: Seconds to the first and to the longest wait before a file that failed is tried again.
_RETRY_FIRST_S, _RETRY_MOST_S = 1.0, 30.0

_T = TypeVar("_T")

_log = EventLog("store")


class SqliteStore(SqliteReader):
    """Requests in a file, bounded in number, age and size. One process at a time writes to it.

    Any thread may read and ``add``; one thread calls ``flush`` again and again.

    Args:
        path: the file; its folder must be there.
        bounds: what it may hold.
        clock: tells the requests' ages, and when to try again.
        migrations: the statements that bring a file to each version.

    Raises:
        ConfigError: it can be no store, another program's file is there, or another sidecar writes to it.

    Attributes:
        errors: how often the file could not be written, opened or understood.
        dropped: requests that were given up because the file could not be written for too long.
        too_old: requests that were older than the bound when they came, and so never kept.
    """

    def __init__(
        self, path: Path, *, bounds: Bounds, clock: Clock, migrations: Sequence[str] = MIGRATIONS
    ) -> None:
        super().__init__(path)
        self.errors = 0
        self.dropped = 0
        self.too_old = 0
        self._bounds = bounds
        self._clock = clock
        self._migrations = migrations
        self._writing = threading.Lock()
        self._guard = threading.Lock()  # of the next three
        self._added: list[JoinedRequest] = []
        self._progress: Progress | None = None
        self._began_to_write: float | None = None  # as long as a write has not returned
        self._place = Place(path)
        self._database: Database | None = None
        self._is_doubted = False  # since a reader met damage
        self._retry_at, self._retry_wait = 0.0, 0.0
        try:
            self._place.check()
            self._try(self._begin)
        except BaseException:
            self._place.leave()
            raise

    def _begin(self) -> None:
        self._place.take()
        self._place.check_content()
        self._open()

    # --- Called by the pipeline ------------------------------------------------------------------

    @property
    def rows(self) -> int | None:
        """Requests in the file; ``None`` while it cannot be used."""
        database = self._database
        return None if database is None or self._retry_wait else database.rows

    def resume(self) -> Progress | None:
        """Return the progress that was kept last; ``None`` in a new store. Before the first ``flush``."""
        return self._try(lambda: self._open().resume())

    def add(self, requests: Sequence[JoinedRequest], progress: Progress | None = None) -> None:
        """Take requests and the progress that belongs to them, to be written with the next ``flush``."""
        with self._guard:
            self._added.extend(requests)
            self._progress = progress or self._progress
            began = self._began_to_write
            if began is not None and self._clock.monotonic() - began > _STUCK_S:
                self._drop_surplus()

    # --- Driven by one thread --------------------------------------------------------------------

    def flush(self) -> None:
        """Write what was added, and delete some of what is beyond the bounds."""
        with self._writing:
            self._flush()

    def _flush(self) -> None:
        if self._clock.monotonic() >= self._retry_at:
            try:
                self._try(self._write)
            except ConfigError as error:  # somebody put another file in its place meanwhile
                self._failed(error)
        with self._guard:
            self._drop_surplus()

    def _drop_surplus(self) -> None:
        surplus = len(self._added) - MOST_UNWRITTEN
        if surplus > 0:
            del self._added[:surplus]
            self.dropped += surplus

    def close(self) -> None:
        """Write what was added, as far as possible, and close the file."""
        with self._writing:
            self._retry_at = 0.0
            self._flush()
            self._shut()
            self._place.leave()

    def _write(self) -> None:
        database = self._open()
        with self._guard:
            added, self._added = self._added, []
            progress, self._progress = self._progress, None
            self._began_to_write = self._clock.monotonic()
        try:
            if added or progress is not None:
                self._write_to(database, added, progress)
        except BaseException:
            self._put_back(added, progress)
            raise
        finally:
            with self._guard:
                self._began_to_write = None
        until = self._clock.monotonic() + _PRUNE_FOR_S
        while database.prune(self._bounds, self._clock.wall()) and self._clock.monotonic() < until:
            pass

    def _write_to(
        self, database: Database, added: Sequence[JoinedRequest], progress: Progress | None
    ) -> None:
        """Write all but the requests that pruning would take at once: of these somebody must be told."""
        oldest = self._clock.wall() - self._bounds.age_s
        too_old = [request for request in added if request.ended_at < oldest]
        kept = [request for request in added if not request.ended_at < oldest]  # with one without a time
        database.write(self._deliveries(kept), progress)
        came = sum(not request.amends for request in too_old)
        if came and not self.too_old:
            _log.warning("requests older than store_max_age are not kept", requests=came)
        self.too_old += came

    def _put_back(self, added: list[JoinedRequest], progress: Progress | None) -> None:
        """Put back what was not written, in front of what was added meanwhile."""
        with self._guard:
            self._added = added + self._added
            self._progress = self._progress or progress

    def _deliveries(self, requests: Sequence[JoinedRequest]) -> list[Delivery]:
        now = self._clock.wall()
        deliveries = []
        for request in requests:
            try:
                row = write_request(request, now)
            except (ValueError, TypeError, OverflowError) as error:  # no request may hold up the others
                self.errors += 1
                _log.exception("a request is not stored", error)
                continue
            replaces = (row.uid, *request.absorbs) if request.amends or request.absorbs else None
            deliveries.append(Delivery(row, replaces))
        return deliveries

    # --- The file --------------------------------------------------------------------------------

    def _open(self) -> Database:
        """Return the open file; opened again after a failure, or where a file is no longer in its place."""
        if self._database is not None:
            self._look_at(self._database)
        self._place.take()
        is_doubted, self._is_doubted = self._is_doubted, False
        if self._database is None or self._retry_wait or is_doubted:
            # After a failure, too: a connection stays read-only when its disk is not any more. The old one
            # is kept till then, since who reads on a full disk needs what it holds open.
            fresh = Database(self._path, migrations=self._migrations)
            self._shut()
            self._database = fresh
            self._place.remember()
            _log.info("store is open", path=str(self._path), requests=fresh.rows)
        if is_doubted:
            self._database.check()
        return self._database

    def _look_at(self, database: Database) -> None:
        """Notice what others have done to the open file.

        Raises:
            sqlite3.DatabaseError: it is damaged.
        """
        if self._place.is_emptied:
            raise sqlite3.DatabaseError("it was emptied")
        if (file := self._place.displaced()) is not None:
            self.errors += 1
            _log.error("store's file was deleted or replaced: the store is opened again", file=str(file))
            if not self._path.exists():
                database.complete()
            self._shut()

    def _cannot_read(self, error: sqlite3.Error) -> None:
        """See SqliteReader: what a reader meets, the writer may have in memory, whole as it was."""
        self._is_doubted = self._is_doubted or is_damage(error)

    def _try(self, work: Callable[[], _T]) -> _T | None:
        """Do something with the file; ``None`` where it failed."""
        try:
            done = work()
        except (sqlite3.Error, OSError) as error:
            self._failed(error)
            return None
        if self._retry_wait:
            _log.info("store can be used again", path=str(self._path), dropped=self.dropped)
            self._retry_wait = 0.0
        return done

    def _shut(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def _failed(self, error: Exception) -> None:
        """Count a failure, log the first of a row, and schedule the next attempt."""
        self.errors += 1
        if not self._retry_wait:
            _log.error("store cannot be used", path=str(self._path), error=str(error))
        self._retry_wait = min(max(_RETRY_FIRST_S, 2 * self._retry_wait), _RETRY_MOST_S)
        self._retry_at = self._clock.monotonic() + self._retry_wait
        if is_damage(error):
            self._shut()
            self._set_aside()

    def _set_aside(self) -> None:
        try:
            kept = self._place.set_aside()
        except OSError as error:
            _log.error("damaged store cannot be set aside", path=str(self._path), error=error.strerror)
        else:
            _log.error(
                "store was damaged: set aside, and begun anew", path=str(self._path), kept_as=str(kept)
            )
            self._retry_at = 0.0
