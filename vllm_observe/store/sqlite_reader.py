"""Reading a SQLite store, beside whoever writes it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec

from vllm_observe.errors import StoreError
from vllm_observe.join.identity import candidates, keys
from vllm_observe.model import JoinedRequest
from vllm_observe.records.values import identity
from vllm_observe.store.protocol import RequestFilter, RequestPage, SessionPage
from vllm_observe.store.queries import per_page, read_cursor, select, write_cursor
from vllm_observe.store.rows import read_request
from vllm_observe.store.schema import MIGRATIONS, OLDEST_READ, is_store, version_of
from vllm_observe.store.session_sums import latest_sessions, sum_up

__all__ = ["SqliteReader", "is_damage"]

#: Seconds that a question waits for a lock. With a WAL that is only while the file is opened or closed.
_BUSY_S = 2.0
#: Bytes of a row's number in a cursor, as many as SQLite has for one.
_SEQ = 8
#: Requests of one id that an answer holds: those of an id that everybody sends are cut off.
_MOST_OF_ONE_ID = 1000


class SqliteReader:
    """A store file that is only read, whether or not a sidecar writes to it. Any thread may ask.

    Every question opens the file again, which takes a third of a millisecond: so no thread waits for
    another, none delays the writer's checkpoints, and a file that was set aside is not kept open.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def requests(self, where: RequestFilter, *, limit: int = 50, cursor: str | None = None) -> RequestPage:
        """List requests, the newest first, as the protocol says."""
        most, chosen = per_page(limit), select(where)
        before, place = "1", tuple[float | int, ...]()
        if cursor is not None:
            ended_at, last = read_cursor(cursor)
            before, place = (
                "(ended_at, seq) < (?, ?)",
                (ended_at, int.from_bytes(last[:_SEQ], "big", signed=True)),
            )
        with self._question() as connection:
            rows = connection.execute(
                f"""
                SELECT ended_at, seq, body FROM (
                    SELECT ended_at, seq FROM request INDEXED BY {chosen.by}
                    WHERE {chosen.condition} AND {before} ORDER BY ended_at DESC, seq DESC LIMIT ?
                ) CROSS JOIN detail USING (seq) ORDER BY ended_at DESC, seq DESC
                """,  # noqa: S608  # made of our own words
                (*chosen.values, *place, most + 1),
            ).fetchall()
            page = rows[:most]
            return RequestPage(
                requests=tuple(read_request(body) for _, _, body in page),
                next_cursor=write_cursor(page[-1][0], page[-1][1].to_bytes(_SEQ, "big", signed=True))
                if len(rows) > most
                else None,
            )

    def request(self, request_id: str) -> tuple[JoinedRequest, ...]:
        """Return all attempts of one id, as the protocol says."""
        asked = identity(request_id.encode("utf-8", "replace").decode(), "request_id")  # as records have it
        if asked is None:
            return ()
        meant = tuple({*candidates(asked), *keys(asked)})
        marks = ", ".join("?" * len(meant))
        with self._question() as connection:
            rows = connection.execute(
                f"""
                SELECT body FROM request CROSS JOIN detail USING (seq)
                WHERE id_key IN ({marks}) OR stem IN ({marks})
                ORDER BY ended_at DESC, seq DESC LIMIT ?
                """,  # noqa: S608  # question marks
                (*meant, *meant, _MOST_OF_ONE_ID),
            ).fetchall()
            found = [read_request(body) for (body,) in reversed(rows)]
        return _best(asked, found)

    def sessions(self, where: RequestFilter, *, limit: int = 50, cursor: str | None = None) -> SessionPage:
        """Sum up sessions, as the protocol says."""
        most, chosen = per_page(limit), select(where)
        before = None
        if cursor is not None:
            ended_at, session_id = read_cursor(cursor)
            before = ended_at, session_id.decode("utf-8", "replace")
        with self._question() as connection:
            connection.execute("BEGIN")  # the sums are of the moment of the list
            page = latest_sessions(connection, chosen, before, most + 1)
            sessions = [sum_up(connection, chosen, session_id) for session_id in page[:most]]
        last = sessions[-1] if len(page) > most else None
        return SessionPage(
            sessions=tuple(sessions),
            next_cursor=None if last is None else write_cursor(last.last_ended_at, last.session_id.encode()),
        )

    def latest(self, most: int) -> tuple[JoinedRequest, ...]:
        """Return the requests that were stored last, the oldest first."""
        with self._question() as connection:
            rows = connection.execute("SELECT body FROM detail ORDER BY seq DESC LIMIT ?", (most,))
            return tuple(reversed([read_request(body) for (body,) in rows]))

    def close(self) -> None:
        """Do nothing: no question leaves anything open."""

    @contextlib.contextmanager
    def _question(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one question.

        Raises:
            StoreError: it cannot be opened or read, or is of another version.
        """
        try:
            with contextlib.closing(self._connect()) as connection:
                if not is_store(connection):
                    raise StoreError(f"store (--store): {self._path} is no store")
                version = version_of(connection)
                if not OLDEST_READ <= version <= len(MIGRATIONS):
                    raise StoreError(_other_version(self._path, version))
                yield connection
        except sqlite3.Error as error:
            self._cannot_read(error)
            if is_damage(error):
                raise StoreError(
                    f"store (--store): {self._path} is no store, or is damaged: a sidecar that writes to it sets "
                    "it aside and begins a new one within seconds, ask again then"
                ) from None
            raise StoreError(f"store (--store): cannot read {self._path}: {error}") from None
        except (msgspec.MsgspecError, ValueError):  # ValueError: an outcome or a cause of a later release
            raise StoreError(
                f"store (--store): {self._path} holds what this vllm-observe does not understand"
            ) from None

    def _cannot_read(self, error: sqlite3.Error) -> None:
        """Take note of trouble; for who can do something about it."""

    def _connect(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise StoreError(f"store (--store): {self._path} is no file")
        connection = self._connect_as("mode=ro")
        try:
            version_of(connection)
        except sqlite3.OperationalError:
            # Reading a WAL needs its shared-memory file, which SQLite creates. In a folder that we may not
            # write to it exists only while there is a writer.
            connection.close()
            if self._path.with_name(self._path.name + "-wal").exists():
                raise
            connection = self._connect_as("immutable=1")
        return connection

    def _connect_as(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(self._path.absolute()))}?{mode}",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )


def is_damage(error: Exception) -> bool:
    """Whether an error says that a file's contents are no store's any more."""
    return type(error) is sqlite3.DatabaseError  # its kinds are other troubles


def _other_version(path: Path, version: int) -> str:
    mend = "start a sidecar on it once" if version < len(MIGRATIONS) else "update this program"
    return f"store (--store): {path} is of version {version}, not {len(MIGRATIONS)}: {mend}"


def _best(asked: str, found: list[JoinedRequest]) -> tuple[JoinedRequest, ...]:
    """Of what an id may stand for, return what it is; else what a part's id stands for; else the rest."""
    ids = [(one, _ids(one)) for one in found]
    same = [one for one, names in ids if asked in names]
    its_keys = {*keys(asked)}
    meant = [one for one, names in ids if any(not its_keys.isdisjoint(candidates(name)) for name in names)]
    return tuple(same or meant or found)


def _ids(request: JoinedRequest) -> set[str]:
    parts = [part.request_id for part in request.engines] + [edge.request_id for edge in request.edges]
    return {request.request_id, *parts}
