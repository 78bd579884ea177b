"""A sidecar that is killed with SIGKILL at random moments, while its log is written and rotated.

In CI a hundred are killed, half of them for each way to name the log, in a minute and a half.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from support.lives import Lives, count, has_begun, stored
from support.waiting import becomes, eventually
from vllm_observe.model import Parts

KILLS = 100 if os.environ.get("CI") else 8
#: A life's most seconds: batches are written every half second, of what is kept once a second.
LONGEST_LIFE_S = 1.5
REQUESTS_PER_S = 300


class App(threading.Thread):
    """Writes two lines for each request, and rotates its log now and then in either way."""

    def __init__(self, log: Path, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self.written: list[str] = []
        self.rotations: Counter[str] = Counter()
        self._log = log
        self._chance = chance
        self._ended = threading.Event()

    def run(self) -> None:
        ways = [self._rename, self._copy_and_truncate]
        while not self._ended.wait(1 / REQUESTS_PER_S):
            self._write(f"request-{len(self.written)}")
            if self._chance.random() < 1 / 300:
                way = self._chance.choice(ways)
                way()
                self.rotations[way.__name__] += 1

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _write(self, name: str) -> None:
        now = time.time()
        edge = {"ts": now, "request_id": name, "session_id": "s", "status": 200, "duration_s": 0.02}
        engine = {"kind": "engine", "ts": now - 0.001, "request_id": f"chatcmpl-{name}", "e2e_s": 0.015}
        lines = "".join(json.dumps(record) + "\n" for record in (engine, edge)).encode()
        cut = self._chance.choice([len(lines), self._chance.randrange(len(lines))])
        with self._log.open("ab", buffering=0) as file:  # in two pieces, now and then
            file.write(lines[:cut])
            if cut < len(lines):
                file.write(lines[cut:])
        self.written.append(name)

    def _rename(self) -> None:
        self._make_room()
        self._log.rename(self._rotated(1))

    def _copy_and_truncate(self) -> None:
        self._make_room()
        shutil.copyfile(self._log, self._rotated(1))
        with self._log.open("rb+") as file:
            file.truncate()

    def _make_room(self) -> None:
        """Number the older ones up; all are kept, so that on a busy machine no sidecar is too late for one."""
        for number in range(sum(self.rotations.values()), 0, -1):
            if self._rotated(number).exists():
                self._rotated(number).rename(self._rotated(number + 1))

    def _rotated(self, number: int) -> Path:
        return self._log.with_name(f"{self._log.name}.{number}")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("also", ["*", ""], ids=["a glob that names all", "the name alone"])
def test_every_request_is_stored_once_though_the_sidecar_is_killed_again_and_again(tmp_path, also):
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # to do it again
    chance = random.Random(seed)
    log, store = tmp_path / "app.jsonl", tmp_path / "requests.db"
    lives, app = Lives(f"{log}{also}", store), App(log, random.Random(seed))
    life = lives.begin()
    eventually(lambda: has_begun(store), within=30, what="the first sidecar's first progress")
    app.start()  # so its log comes late
    life.kill()
    life.join()
    for _ in range(KILLS // 2):
        lives.killed_after(chance.uniform(0.0, LONGEST_LIFE_S))
    app.stop()
    last = lives.begin()
    becomes(len(app.written), lambda: count(store), within=60)
    last.terminate()
    last.join()
    requests = stored(store)
    assert Counter(request.request_id for request in requests) == Counter(app.written)
    assert {request.parts for request in requests} == {Parts.BOTH}
    assert set(app.rotations) == {"_rename", "_copy_and_truncate"} or KILLS < 100
