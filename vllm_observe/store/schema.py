"""The tables of a store, and how a store of an older version becomes one of today's.

``PRAGMA user_version`` holds the version: how many of the :data:`MIGRATIONS` a file has been through.
A new version appends one; the earlier ones never change, since they have made files that exist.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

__all__ = ["MIGRATIONS", "OLDEST_READ", "is_store", "migrate", "version_of"]

#: Marks a file as ours: "vObs".
_APPLICATION = 0x764F6273

# What is searched and summed up is in narrow rows, and the whole request is JSON in a table of its own: a
# scan of a million rows reads a tenth of the file. Each index continues with the order of the lists and
# with the duration, so that ``slower_than`` needs no look at the row.
_VERSION_1 = f"""
PRAGMA application_id = {_APPLICATION};
CREATE TABLE request (
    seq INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    id_key TEXT NOT NULL,  -- as much of its id as the join compares
    stem TEXT,  -- where only the engine told of it: the least that its id may stand for
    session_id TEXT,
    profile TEXT,
    client TEXT,
    model TEXT,
    outcome TEXT NOT NULL,
    cause TEXT,
    ended_at REAL NOT NULL,
    duration_s REAL,
    prompt_tokens INTEGER,
    cached_tokens INTEGER,
    completion_tokens INTEGER
);
CREATE TABLE detail (seq INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE INDEX by_id ON request (id_key);
CREATE INDEX by_stem ON request (stem) WHERE stem IS NOT NULL;
CREATE INDEX by_end ON request (ended_at, seq, duration_s);
CREATE INDEX by_session ON request (session_id, ended_at, seq, duration_s) WHERE session_id IS NOT NULL;
CREATE INDEX by_profile ON request (profile, ended_at, seq, duration_s) WHERE profile IS NOT NULL;
CREATE INDEX by_client ON request (client, ended_at, seq, duration_s) WHERE client IS NOT NULL;
CREATE INDEX by_model ON request (model, ended_at, seq, duration_s) WHERE model IS NOT NULL;
CREATE INDEX by_cause ON request (cause, ended_at, seq, duration_s) WHERE cause IS NOT NULL;
CREATE INDEX by_outcome ON request (outcome, ended_at, seq, duration_s);

-- How far the logs were read, and what was read and is in no request yet.
CREATE TABLE progress (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE waiting (key INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL);
"""

# Sessions are summed up from their index alone. Where few sessions have very many requests, a look at the row
# of each would take three times as long; the columns make a file larger by some hundredths.
_VERSION_2 = """
DROP INDEX by_session;
CREATE INDEX by_session ON request (
    session_id, ended_at, seq, duration_s,
    profile, client, model, outcome, cause, prompt_tokens, cached_tokens, completion_tokens
) WHERE session_id IS NOT NULL;
"""

#: The statements that bring a file from each version to the next.
MIGRATIONS = (_VERSION_1, _VERSION_2)
#: The oldest version that is read as it is: since then only indexes have changed, and no answer with them.
OLDEST_READ = 1


def is_store(connection: sqlite3.Connection) -> bool:
    """Say whether a file is a store, of whatever version."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    return application == _APPLICATION


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a file; 0 for one that holds nothing yet."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Bring a file to the newest version, each step whole or not at all.

    Raises:
        sqlite3.Error: the file cannot be written, or is damaged.
    """
    version = version_of(connection)
    for number, statements in enumerate(migrations[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {statements} PRAGMA user_version = {number}; COMMIT;")
