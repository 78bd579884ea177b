"""Sidecars that live one after the other, and what they leave in their store.

Each is a real process, forked off a server that has imported everything: it starts in some 20 ms
instead of 500.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sqlite3
from pathlib import Path

from vllm_observe.errors import StoreError
from vllm_observe.model import JoinedRequest
from vllm_observe.sidecar import run
from vllm_observe.store.protocol import MOST_PER_PAGE, RequestFilter
from vllm_observe.store.sqlite_reader import SqliteReader


class Lives:
    """Sidecars, one after the other, on the same logs and the same store."""

    def __init__(self, pattern: str, store: Path) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["vllm_observe.sidecar"])
        self._flags = {
            "vllm_url": "http://127.0.0.1:9",  # nobody listens there: the requests are kept all the same
            "request_logs": [pattern],
            "store": store,
            "listen": "127.0.0.1:0",
            "admin_listen": "127.0.0.1:0",
            "join_window": 0.3,
            "log_level": "error",
        }

    def begin(self) -> multiprocessing.process.BaseProcess:
        # A daemon, so that a test that fails leaves none behind.
        process = self._context.Process(
            target=run, kwargs={"config": None, "flags": self._flags}, daemon=True
        )
        process.start()
        return process

    def killed_after(self, seconds: float) -> None:
        process = self.begin()
        process.join(seconds)
        assert process.exitcode is None, "it ended by itself"
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL


def has_begun(store: Path) -> bool:
    """Whether a sidecar has kept in a store which logs there were at its start."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("SELECT 1 FROM progress").fetchall())
    except sqlite3.Error:  # it is not made yet
        return False


def stored(store: Path) -> list[JoinedRequest]:
    """All the requests in a store."""
    reader, cursor = SqliteReader(store), None
    found: list[JoinedRequest] = []
    while True:
        page = reader.requests(RequestFilter(), limit=MOST_PER_PAGE, cursor=cursor)
        found += page.requests
        cursor = page.next_cursor
        if cursor is None:
            return found


def count(store: Path) -> int:
    """How many requests are stored: all are of one session; none while the first sidecar makes the store."""
    try:
        sessions = SqliteReader(store).sessions(RequestFilter()).sessions
    except StoreError:
        return 0
    return sum(session.requests for session in sessions)
