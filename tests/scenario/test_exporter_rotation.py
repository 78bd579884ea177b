"""A sidecar with its store, stopped, killed and begun again, while the real logrotate or an app turns its log."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.lives import Lives, count, has_begun, stored
from support.waiting import becomes, eventually

Turn = Callable[[Path], None]

#: What logrotate is told to do, and what of the log's rotations the sidecar is told.
RULES = {
    "renamed": ("create", "*"),
    "renamed and compressed": ("create\ncompress", ""),
    "renamed by date": ("create\ncompress\ndelaycompress\ndateext\ndateformat -%Y%m%d-%s.{turn}", ""),
    "copied and truncated": ("copytruncate", ""),
    "copied, truncated and compressed": ("copytruncate\ncompress", "*"),
}


class App:
    """Writes its log, one line a request, and opens it anew for each few of them."""

    def __init__(self, log: Path) -> None:
        self.written: list[str] = []
        self._log = log

    def write(self) -> None:
        names = [f"request-{len(self.written) + number}" for number in range(25)]
        lines = [{"ts": time.time(), "request_id": name, "session_id": "s", "status": 200} for name in names]
        with self._log.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
        self.written += names


@pytest.fixture
def log(tmp_path):
    (tmp_path / "log").mkdir(mode=0o755)
    return tmp_path / "log" / "app.jsonl"


def rotated_by(logrotate: Path, rule: str, home: Path) -> Turn:
    turns = itertools.count()

    def rotate(log: Path) -> None:
        settings = home / "logrotate.conf"
        settings.write_text(f"{log} {{\nrotate 50\n{rule.format(turn=next(turns))}\n}}\n", encoding="utf-8")
        settings.chmod(0o644)
        command = [logrotate, "--force", "--state", home / "state", settings]
        subprocess.run(command, check=True, capture_output=True, timeout=30)

    return rotate


def read_whole(app: App, store: Path) -> None:
    becomes(len(app.written), lambda: count(store), within=30)


def stored_after_a_last_life(lives: Lives, app: App, store: Path) -> Counter[str]:
    """Have one more sidecar read to the end, and count each id that is stored."""
    life = lives.begin()
    read_whole(app, store)
    life.terminate()
    life.join()
    return Counter(request.request_id for request in stored(store))


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "also"), RULES.values(), ids=RULES.keys())
def test_every_request_is_stored_once_though_nobody_looked_while_its_log_was_rotated(
    tmp_path, log, logrotate, rule, also
):
    store, app = tmp_path / "requests.db", App(log)
    lives, rotate = Lives(f"{log}{also}", store), rotated_by(logrotate, rule, tmp_path)

    app.write()
    life = lives.begin()
    read_whole(app, store)
    app.write()
    rotate(log)  # before most of it was read
    app.write()
    read_whole(app, store)
    life.terminate()
    life.join()
    assert life.exitcode == 0

    for _ in range(2):  # while it is stopped
        app.write()
        rotate(log)
    app.write()
    life = lives.begin()
    app.write()
    read_whole(app, store)
    life.kill()
    life.join()

    rotate(log)  # of a log that was read to its end
    app.write()
    assert stored_after_a_last_life(lives, app, store) == Counter(app.written)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule for rule, _ in RULES.values()], ids=RULES.keys())
def test_a_log_that_comes_late_is_stored_whole_though_the_sidecar_was_killed_before_it_said_so(
    tmp_path, log, logrotate, rule
):
    store, app = tmp_path / "requests.db", App(log)
    archive = log.with_name("app.jsonl.40")
    archive.write_text(
        json.dumps({"ts": time.time(), "request_id": "old", "status": 200}) + "\n", encoding="utf-8"
    )
    os.utime(archive, (1_000_000, 1_000_000))
    lives, rotate = Lives(str(log), store), rotated_by(logrotate, rule, tmp_path)
    life = lives.begin()
    eventually(lambda: has_begun(store), within=30, what="the sidecar's first progress")
    os.kill(life.pid, signal.SIGSTOP)
    for _ in range(2):
        app.write()
        rotate(log)
    app.write()
    life.kill()
    life.join()
    assert stored_after_a_last_life(lives, app, store) == Counter(app.written)


def deleted_and_made_again(log: Path) -> None:
    """Most file systems give the new file the inode of the old one."""
    log.unlink()
    log.touch()


def swapped(log: Path) -> None:
    """Have the log's name lead to the next file of the day, in one step."""
    target = log.with_name(f"day-{len(list(log.parent.iterdir()))}")
    target.touch()
    link = log.with_name("link")
    link.symlink_to(target.name)
    link.rename(log)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [deleted_and_made_again, swapped])
def test_what_stands_under_the_logs_name_next_is_read_from_its_beginning(tmp_path, log, turn):
    store, app = tmp_path / "requests.db", App(log)
    lives = Lives(str(log), store)
    app.write()
    for stop, turns_while_it_runs in (("terminate", False), ("kill", True)):
        life = lives.begin()
        app.write()
        read_whole(app, store)
        if turns_while_it_runs:
            turn(log)
            app.write()
            read_whole(app, store)
        getattr(life, stop)()
        life.join()
        turn(log)
        app.write()
    assert stored_after_a_last_life(lives, app, store) == Counter(app.written)
