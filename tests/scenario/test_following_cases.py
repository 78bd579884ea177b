"""The public cases on following files, step by step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.logs import Followed, write
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog
from vllm_observe.errors import UnparsedReason
from vllm_observe.records.formats import decoder
from vllm_observe.records.reader import RecordReader
from vllm_observe.records.source import Source

APP = RequestLog(path="-", fields={"request_id": "x_request_id"})


def line(number: int, note: str = "") -> str:
    return f'{{"ts":"2026-03-02T10:15:0{number}Z","x_request_id":"L{number}","status":200,"note":"{note}"}}\n'


class Reading:
    """A reader of one source that can be stopped and started, and the ids that it has read."""

    def __init__(self, pattern: Path, **options: int) -> None:
        self.followed = Followed(Source(str(pattern), decoder(APP, clock=ManualClock())), **options)
        self.seen: list[str] = []
        self.start()

    def start(self) -> None:
        self.reader = RecordReader(follower=self.followed.follower, clock=self.followed.clock)

    def poll(self) -> list[str]:
        self.followed.clock.advance(1)
        self.seen += [record.request_id for record in self.reader.poll()]
        return self.seen

    def restart(self) -> None:
        self.followed.restart()
        self.start()


@pytest.fixture
def reading(tmp_path):
    made = []

    def start(pattern: str, **options: int) -> Reading:
        made.append(Reading(tmp_path / pattern, **options))
        return made[-1]

    yield start
    for one in made:
        one.followed.follower.close()


def test_case_13_every_line_once_after_each_step(tmp_path, reading):
    log = tmp_path / "app.jsonl"
    app = reading("app.jsonl*")

    write(log, line(1) + line(2))
    assert app.poll() == ["L1", "L2"]

    shutil.copyfile(log, tmp_path / "app.jsonl.1")
    os.truncate(log, 0)
    write(log, line(3, "which makes it longer than what comes next"))
    assert app.poll() == ["L1", "L2", "L3"]

    inode = log.stat().st_ino
    log.unlink()
    write(log, line(4))
    app.followed.files.inodes[str(log)] = inode
    app.restart()
    assert app.poll() == ["L1", "L2", "L3", "L4"]

    log.unlink()
    log.touch()
    app.followed.files.inodes[str(log)] = 10**9
    app.followed.files.refused.add(str(log))
    assert app.poll() == app.poll() == ["L1", "L2", "L3", "L4"]
    assert app.followed.follower.open_errors >= 1
    app.followed.files.refused.clear()
    write(log, line(5))
    log.chmod(0o644)
    assert app.poll() == ["L1", "L2", "L3", "L4", "L5"]

    app.followed.files.inodes.clear()
    (tmp_path / "d1.jsonl").touch()
    write(tmp_path / "d2.jsonl", line(6))
    log.unlink()
    log.symlink_to("d1.jsonl")
    app.poll()
    log.unlink()
    log.symlink_to("d2.jsonl")
    assert app.poll() == ["L1", "L2", "L3", "L4", "L5", "L6"]
    app.followed.clock.advance(1000)
    assert app.poll() == ["L1", "L2", "L3", "L4", "L5", "L6"]


def test_case_12_pieces_are_put_together_and_the_last_one_stays_pending(request, tmp_path, reading):
    shutil.copyfile(request.config.rootpath / "tests/data/cases/12-cri-partial/pod.log", tmp_path / "pod.log")
    pod = reading("pod.log")
    assert pod.poll() == ["long-1", "short-2"]
    assert +pod.reader.unparsed == {UnparsedReason.NOT_JSON: 1}  # "plain warning"
    for _ in range(3):
        assert pod.poll() == ["long-1", "short-2"]
    write(tmp_path / "pod.log", '2026-03-02T12:30:03Z stdout F est_id":"late-3","status":200}\n')
    assert pod.poll() == ["long-1", "short-2", "late-3"]
    assert +pod.reader.unparsed == {UnparsedReason.NOT_JSON: 1}


def test_case_12_the_pieces_are_joined_without_anything_between_them(request):
    data = (request.config.rootpath / "tests/data/cases/12-cri-partial/pod.log").read_bytes()
    assert b'"note":"aaaa' in data
    followed = Followed(request.config.rootpath / "tests/data/cases/12-cri-partial/pod.log")
    texts = followed.poll()
    followed.follower.close()
    assert '"note":"aaaabbbbcccc"' in texts[1]
    assert len(texts) == 3


def test_case_12_with_a_cap_the_pending_line_is_dropped_and_counted_once(request, tmp_path, reading):
    shutil.copyfile(request.config.rootpath / "tests/data/cases/12-cri-partial/pod.log", tmp_path / "pod.log")
    pod = reading("pod.log", max_line=150)
    pod.poll()
    for _ in range(20):
        write(tmp_path / "pod.log", f"2026-03-02T12:30:03Z stdout P {'x' * 50}\n")
        pod.poll()
    write(tmp_path / "pod.log", '2026-03-02T12:30:04Z stdout F "}\n')
    write(tmp_path / "pod.log", f"2026-03-02T12:30:05Z stdout F {line(4)}")
    assert pod.poll() == ["long-1", "short-2", "L4"]
    assert +pod.reader.unparsed == {UnparsedReason.NOT_JSON: 1, UnparsedReason.TOO_LONG: 1}
