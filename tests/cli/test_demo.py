"""The demo as its user runs it: real processes, real time."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.waiting import eventually

DEMO = (sys.executable, "-m", "vllm_observe", "demo")


class Demo:
    """A running demo, whose files are all under one directory."""

    def __init__(self, directory: Path, *flags: str) -> None:
        self.output = directory / "output.txt"
        self.files = directory / "tmp"
        self.files.mkdir()
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*DEMO, *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"TMPDIR": str(self.files)},
            )

    def says(self, pattern: str, *, within: float = 30.0) -> str:
        """Wait for a line."""
        try:
            found = eventually(lambda: re.search(pattern, self.text()), within=within, what=pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
        return found[0]

    def text(self) -> str:
        """All that it has said."""
        return self.output.read_text(encoding="utf-8")

    def child(self) -> int:
        """The process id of its sidecar."""
        return eventually(lambda: next(children(self.process.pid), 0), within=10, what="the sidecar")


def children(parent: int) -> Iterator[int]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(status.read_text(encoding="utf-8").rpartition(")")[2].split()[1]) == parent:
                yield int(status.parent.name)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def start(tmp_path):
    with contextlib.ExitStack() as stack:

        def demo(*flags: str) -> Demo:
            started = Demo(tmp_path, *flags)
            stack.callback(started.process.wait)
            stack.callback(started.process.kill)
            return started

        yield demo


@pytest.mark.slow
def test_a_newcomer_sees_the_trouble_named_and_ctrl_c_leaves_nothing_behind(start):
    demo = start("--seconds", "60")
    demo.says(r"running 0/8, 0 waiting, KV 0 %\n")
    demo.says(r"running 8/8, bound by slots, 16 waiting, KV \d\d %; slow or failed \d+: \d+ queue_slots")
    child = demo.child()
    assert list(demo.files.iterdir())
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(10) == 0
    assert demo.says(r"whose and why: .*\(queue_slots\)\n", within=0)
    assert demo.says(
        r"one to look at: demo-\d+ of session user-\d, whose first token took 2\.\d s\n", within=0
    )
    assert not alive(child)
    assert list(demo.files.iterdir()) == []


@pytest.mark.slow
def test_it_ends_by_itself_after_so_many_seconds(start):
    demo = start("--seconds", "1")
    assert demo.process.wait(30) == 0
    assert demo.says("no request has ended yet", within=0)
    assert list(demo.files.iterdir()) == []


@pytest.mark.slow
def test_its_sidecar_does_not_outlive_it_whatever_ends_it(start):
    demo = start()
    child = demo.child()
    demo.says("Ctrl-C ends it")
    demo.process.kill()
    eventually(lambda: not alive(child), within=5, what="the end of the sidecar")


@pytest.mark.slow
def test_sigterm_while_it_starts_leaves_nothing_behind(start):
    demo = start()
    child = demo.child()
    demo.process.terminate()
    assert demo.process.wait(10) == 0
    assert not alive(child)
    assert list(demo.files.iterdir()) == []


@pytest.mark.slow
def test_a_vllm_of_ones_own_is_watched_instead(start):
    demo = start("--vllm-url", "http://user:secret@127.0.0.1:1", "--seconds", "4")
    assert demo.process.wait(30) == 0
    demo.says(r"your vLLM at http://127\.0\.0\.1:1, ")
    demo.says(r"no engine state: failed scrapes \d: \d connection")
    demo.says("give --request-log", within=0)
    assert "secret" not in demo.text()


@pytest.mark.slow
def test_a_sidecar_that_does_not_start_is_told_with_its_own_words(start):
    demo = start("--vllm-url", "http://127.0.0.1:1", "--request-log", "")
    assert demo.process.wait(30) == 1
    assert demo.text().splitlines() == [
        demo.says("vllm-observe: request_logs.*"),
        "vllm-observe: the sidecar ended with exit code 2",
    ]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--vllm-url", "ftp://gpu"), "--vllm-url"),
        (("--vllm-url", ""), "--vllm-url"),
        (("--request-log", "app.jsonl"), "--request-log"),
        (("--seconds", "0"), "--seconds"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(flags, names):
    done = subprocess.run([*DEMO, *flags], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert names in line


def test_where_no_file_can_be_written_it_says_so(tmp_path):
    program = (
        f"import tempfile; tempfile.tempdir = {str(tmp_path / 'missing')!r}; import vllm_observe.__main__"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "demo"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("vllm-observe: the demo cannot run here: ")
