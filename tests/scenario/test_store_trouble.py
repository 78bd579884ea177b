"""A running sidecar whose store meets trouble: the metrics go on, and what happened is said and counted."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time

import pytest
import requests

from http_double import http_double
from support.sidecar import PROGRAM, sidecar
from support.waiting import becomes, eventually

ERRORS = "vllm_observe_store_errors_total"
ROWS = "vllm_observe_store_rows"


@pytest.fixture
def running(tmp_path):
    """A sidecar with a store, and a log that it follows."""
    log = tmp_path / "app.jsonl"
    log.touch()
    with http_double() as vllm:
        arguments = ["--vllm-url", vllm.url, "--request-log", str(log), "--store", str(tmp_path / "s.db")]
        with sidecar(tmp_path / "log", *arguments) as running:
            yield running


def refusal(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a sidecar that cannot start."""
    command = [PROGRAM, "exporter", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stderr


def tell(folder, name):
    with (folder / "app.jsonl").open("a") as log:
        log.write(
            json.dumps({"ts": time.time(), "request_id": name, "session_id": "s", "status": 200}) + "\n"
        )


def stored(running) -> list[str] | None:
    answer = requests.get(running.admin + "/api/v1/requests", timeout=10)
    return [one["request_id"] for one in answer.json()["requests"]] if answer.ok else None


def room(running, most):
    """Have the system refuse this process every byte beyond so many of any file."""
    resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def test_a_full_disk_stops_no_metrics_and_what_waited_is_stored_when_there_is_room(running, tmp_path):
    becomes(0.0, lambda: running.value(ROWS), within=20)
    room(running, (tmp_path / "s.db-wal").stat().st_size)  # its own log is a file too, and smaller
    tell(tmp_path, "waits")
    eventually(lambda: running.event("store cannot be used"), within=20, what="the complaint")
    assert running.value(ERRORS) >= 1
    assert running.value(ROWS) is None
    room(running, resource.RLIM_INFINITY)
    eventually(lambda: stored(running) == ["waits"], within=20, what="the request")
    eventually(lambda: running.event("store can be used again"), within=5, what="the good news")
    assert running.value('vllm_observe_dropped_total{reason="store_full"}') == 0


def test_files_that_somebody_hurts_are_begun_anew_while_it_runs(running, tmp_path):
    store = tmp_path / "s.db"
    tell(tmp_path, "first")
    becomes(1.0, lambda: running.value(ROWS), within=20)
    store.unlink()
    becomes(0.0, lambda: running.value(ROWS), within=20)
    tell(tmp_path, "second")
    eventually(lambda: stored(running) == ["second"], within=20, what="a store without the first")
    os.truncate(store, 0)
    eventually(
        lambda: running.event("store was damaged: set aside, and begun anew"), within=20, what="the complaint"
    )
    tell(tmp_path, "third")
    eventually(lambda: stored(running) == ["third"], within=20, what="a store without the second")
    assert store.with_name("s.db.damaged").exists()
    assert running.value(ERRORS) == 2
    assert running.value("vllm_observe_log_lines_total") == 3


def test_a_second_sidecar_is_refused_whatever_was_deleted_beside_the_store(running, tmp_path):
    becomes(0.0, lambda: running.value(ROWS), within=20)
    for beside in tmp_path.glob("s.db?*"):
        beside.unlink()
    code, told = refusal("--store", str(tmp_path / "s.db"))
    assert code == 2
    assert "another sidecar writes to" in told


@pytest.mark.parametrize("name", ["", "none/s.db", "app.jsonl/s.db", "app.jsonl"])
def test_a_store_that_can_be_none_ends_it_at_once(tmp_path, name):
    (tmp_path / "app.jsonl").write_text("no database\n" * 100)
    code, told = refusal("--store", str(tmp_path / name))
    assert code == 2
    assert told.startswith("vllm-observe: store (--store): ")
    assert told.count("\n") == 1
