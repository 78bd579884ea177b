"""Crashes at any moment between any two steps: what the next sidecar makes of what is on the disk.

Copying the store's files while nobody writes gives what a SIGKILL at that moment leaves behind.
tests/scenario/test_kill9.py kills real processes, amid their steps.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.joins import T
from support.stores import everything
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog, Settings
from vllm_observe.model import Limits, LimitsSource, Parts
from vllm_observe.pipeline import Pipeline

NOBODY = "http://127.0.0.1:9"


class Server:
    """A log that grows, and the sidecars that follow it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "app.jsonl"
        self.clock = ManualClock(wall=T)
        self._folder = folder
        self._lives = 0
        self._rotations = 0
        self.pipeline = self._begin(self._store)

    @property
    def _store(self) -> Path:
        return self._folder / str(self._lives) / "requests.db"

    def _begin(self, store: Path) -> Pipeline:
        store.parent.mkdir(exist_ok=True)
        logs = [RequestLog(path=f"{self.log}*")]
        return Pipeline(Settings(vllm_url=NOBODY, request_logs=logs, store=store), clock=self.clock)

    def write(self, *records: dict) -> None:
        with self.log.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def edge(self, number: int) -> None:
        self.write({"ts": T + number * 10, "request_id": f"id-{number}", "status": 200, "duration_s": 2.0})

    def engine(self, number: int) -> None:
        self.write(
            {
                "kind": "engine",
                "ts": T + number * 10,
                "request_id": f"chatcmpl-id-{number}",
                "e2e_s": 1.5,
                "finish_reason": "stop",
            }
        )

    def rotate(self) -> None:
        if self.log.exists():
            self._rotations += 1
            self.log.rename(self.log.with_name(f"app.jsonl.{self._rotations}"))

    def read(self, *, seconds: float = 1.0) -> None:
        self.clock.advance(seconds)
        self.pipeline.follow()

    def crash(self) -> None:
        """Leave the sidecar where it is, and begin another with what is on the disk."""
        before = self._store.parent
        self._lives += 1
        self._store.parent.mkdir()
        for suffix in ("", "-wal"):
            if (file := before / f"requests.db{suffix}").exists():
                shutil.copyfile(file, self._store.parent / file.name)
        self.pipeline.stop_scraping()
        self.pipeline = self._begin(self._store)

    def stop(self) -> None:
        """End the sidecar as SIGTERM does, and begin another."""
        self.end()
        self.pipeline = self._begin(self._store)

    def end(self) -> None:
        self.pipeline.stop_scraping()
        assert self.pipeline.drain(within=5.0)

    def stored(self) -> list:
        assert self.pipeline.store is not None
        return everything(self.pipeline.store)


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    made.end()


def test_what_waited_in_the_join_at_a_crash_is_joined_after_it(server):
    server.edge(1)
    server.read()
    server.pipeline.flush_store()
    server.log.unlink()  # nothing can be read again
    server.crash()
    server.engine(1)
    server.read()
    server.read(seconds=3.0)
    server.read()
    server.pipeline.flush_store()
    (found,) = server.stored()
    assert (found.request_id, found.parts) == ("id-1", Parts.BOTH)


def test_a_part_that_comes_after_a_restart_amends_what_was_stored_before_it(server):
    server.edge(1)
    server.read()
    server.stop()
    server.engine(1)
    for _ in range(4):
        server.read(seconds=3.0)
    server.pipeline.flush_store()
    (found,) = server.stored()
    assert (found.request_id, found.parts) == ("id-1", Parts.BOTH)


def test_what_the_engine_told_before_a_restart_meets_its_client_after_it(server):
    server.engine(1)
    server.read()
    server.stop()
    server.edge(1)
    for _ in range(4):
        server.read(seconds=3.0)
    server.pipeline.flush_store()
    (found,) = server.stored()
    assert (found.request_id, found.parts) == ("id-1", Parts.BOTH)


def test_what_was_read_and_not_yet_written_is_read_again(server):
    server.edge(1)
    server.engine(1)
    for _ in range(4):
        server.read()
    server.crash()
    for _ in range(4):
        server.read()
    server.pipeline.flush_store()
    assert [one.request_id for one in server.stored()] == ["id-1"]


def test_the_limits_that_a_log_told_of_are_known_after_a_crash(server):
    server.write({"kind": "limits", "engine": "0", "max_num_seqs": 8})
    server.read()
    server.pipeline.flush_store()
    server.crash()
    limits = server.pipeline._engine.limits.limits_for("0")
    assert limits == Limits(source=LimitsSource.PLUGIN, engine="0", max_num_seqs=8)


def test_requests_of_before_a_restart_are_not_counted_again(server):
    server.edge(1)
    server.read()
    server.stop()
    server.read()
    assert server.pipeline.state().requests.joined == {}
    assert server.pipeline.state().requests.sessions == 0


def test_the_sessions_of_before_a_restart_are_active_after_it(server):
    server.write({"ts": T, "request_id": "a", "session_id": "s", "status": 200})
    server.read()
    server.stop()
    assert server.pipeline.state().requests.sessions == 1


def test_a_store_that_is_new_goes_on_after_the_checkpoint_file(tmp_path):
    log, checkpoint, store = tmp_path / "app.jsonl", tmp_path / "positions.json", tmp_path / "requests.db"
    clock = ManualClock(wall=T)
    log.write_text(json.dumps({"ts": T, "request_id": "old", "status": 200}) + "\n")
    common = {"vllm_url": NOBODY, "request_logs": [RequestLog(path=str(log))], "checkpoint_file": checkpoint}
    first = Pipeline(Settings(**common), clock=clock)
    assert first.drain(within=5.0)
    with log.open("a") as file:
        file.write(json.dumps({"ts": T, "request_id": "new", "status": 200}) + "\n")
    second = Pipeline(Settings(store=store, **common), clock=clock)
    assert second.drain(within=5.0)
    assert [one.request_id for one in everything(second.store)] == ["new"]


STEPS = st.lists(
    st.sampled_from(["edge", "engine", "read", "keep", "crash", "stop", "rotate", "wait", "both"]),
    min_size=10,
    max_size=40,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_every_request_is_stored_once_whatever_happens_in_whatever_order(steps):
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        told = {"edge": 0, "engine": 0}
        for step in steps:
            if step in told or step == "both":
                for side in told if step == "both" else (step,):
                    told[side] += 1
                    getattr(server, side)(told[side])
            elif step == "read":
                server.read()
            elif step == "wait":
                server.read(seconds=70.0)
            elif step == "keep":
                server.read()
                server.pipeline.flush_store()
            else:
                getattr(server, step)()
        for side, count in told.items():
            for number in range(count + 1, max(told.values()) + 1):
                getattr(server, side)(number)
        for _ in range(5):
            server.read(seconds=3.0)
        server.end()
        stored = server.stored()
        expected = Counter(f"id-{number}" for number in range(1, max(told.values()) + 1))
        assert Counter(one.request_id for one in stored) == expected
        assert {one.parts for one in stored} <= {Parts.BOTH}
