"""The demo as its user runs it: real processes, real time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.waiting import eventually
from vllm_observe.demo.story import STORIES
from vllm_observe.sim.scenarios.registry import SCENARIOS

DEMO = (sys.executable, "-m", "vllm_observe", "demo")


class Demo:
    """A running demo, whose files are all under one directory."""

    def __init__(self, directory: Path, *flags: str, **environment: str) -> None:
        self.output = directory / "output.txt"
        self.files = directory / "with [a] blank"
        self.files.mkdir(parents=True)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*DEMO, *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {"TMPDIR": str(self.files)} | environment,
            )

    def says(self, pattern: str, *, within: float = 60.0) -> str:
        """Wait for a line."""
        try:
            found = eventually(lambda: re.search(pattern, self.text()), within=within, what=pattern)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()}") from None
        return found[0]

    def text(self) -> str:
        """All that it has said."""
        return self.output.read_text(encoding="utf-8")

    def children(self) -> list[int]:
        """The process ids of its parts, once all of them run."""
        return eventually(
            lambda: found if len(found := list(children(self.process.pid))) >= 4 else [],
            within=20,
            what="its parts",
        )

    def ports(self) -> list[int]:
        """The ports that it told."""
        return [urlsplit(url).port for url in set(re.findall(r"http://127\.0\.0\.1:\d+", self.text()))]

    def is_gone(self, parts: list[int]) -> bool:
        """Whether none of its processes, files and ports is left."""
        return (
            not any(map(alive, (self.process.pid, *parts)))
            and not list(self.files.iterdir())
            and not any(map(listens, self.ports()))
        )


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


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def start(tmp_path):
    with contextlib.ExitStack() as stack:

        def demo(*flags: str, **environment: str) -> Demo:
            started = Demo(tmp_path / f"demo-{len(list(tmp_path.iterdir()))}", *flags, **environment)
            stack.callback(started.process.wait)
            stack.callback(started.process.kill)
            return started

        yield demo


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Two stories, which go on while other tests run: the first test begins them, the last ones end them."""
    with contextlib.ExitStack() as stack:
        demos = {}
        for name in ("slots-exhausted", "hang"):
            demos[name] = Demo(tmp_path_factory.mktemp(name), "--scenario", name, "--seconds", "900")
            stack.callback(demos[name].process.wait)
            stack.callback(demos[name].process.kill)
        yield demos


# --- How it begins


@pytest.mark.slow
def test_at_first_it_says_in_three_lines_where_to_look_and_all_is_well(played):
    demo = played["slots-exhausted"]
    demo.says(r"serving: [1-9]\d* of 64 slots, \d waiting")
    first = demo.text().splitlines()[:3]
    assert [line.partition(" http")[0] for line in first[:2]] == [
        "slots-exhausted: A batch job takes every slot; metrics:",
        "admin:",
    ]
    assert "--sidecar http://127.0.0.1:" in first[1]
    assert first[2].startswith("alerts: ")


@pytest.mark.slow
def test_without_them_it_says_what_would_add_them_and_ends_by_itself(start):
    demo = start("--seconds", "2", PATH="/nowhere")
    assert demo.process.wait(60) == 0
    demo.says("with prometheus and alertmanager on the PATH, alerts fire here", within=0)
    demo.says("no request was slow, none failed", within=0)
    assert list(demo.files.iterdir()) == []


@pytest.mark.slow
def test_a_vllm_of_ones_own_is_watched_instead(start):
    demo = start("--vllm-url", "http://user:secret@127.0.0.1:1", "--seconds", "4")
    assert demo.process.wait(60) == 0
    demo.says(r"your vLLM at http://127\.0\.0\.1:1; metrics: ")
    demo.says(r"  0 s  down: .*127\.0\.0\.1:1", within=0)
    demo.says("give --request-log", within=0)
    assert "secret" not in demo.text()


# --- However it ends, nothing is left


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_starts_leaves_nothing_behind(ending, start):
    demo = start()
    eventually(lambda: list(demo.files.iterdir()), within=20, what="its folder")
    demo.process.send_signal(ending)
    assert demo.process.wait(20) == 0
    assert demo.is_gone([])
    assert list(children(demo.process.pid)) == []


@pytest.mark.slow
def test_a_part_that_dies_ends_it_with_a_word(start):
    demo = start(PATH="/nowhere")
    demo.says("Ctrl-C ends it")
    parts = demo.children()
    for pid in parts:
        if b"vllm_observe.demo.server" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    assert demo.process.wait(20) == 1
    demo.says("vllm-observe: vllm ended with exit code -9", within=0)
    assert demo.is_gone(parts)


class Terminal:
    """A demo on a terminal of its own; ``close`` is what closing its window is."""

    def __init__(self, files: Path, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        here = {"TMPDIR": str(files), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(
            [*DEMO],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | here | environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # no lock is held
        )
        os.close(theirs)
        self.shown = b""
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while read := os.read(self._ours, 65536):
                self.shown += read

    def close(self) -> None:
        os.close(self._ours)

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def join(self) -> None:
        self._reading.join()


@pytest.mark.slow
def test_on_a_terminal_ctrl_c_leaves_the_last_view_and_its_cursor(tmp_path):
    terminal = Terminal(tmp_path, PATH="/nowhere")
    eventually(lambda: b"Ctrl-C ends it" in terminal.shown, within=60, what="the view")
    terminal.press_ctrl_c()
    assert terminal.process.wait(20) == 0
    terminal.join()
    terminal.close()
    last = terminal.shown.rpartition(b"happens")[2]
    assert b"ended; --list names other scenarios" in last
    assert terminal.shown.rpartition(b"\x1b[?25")[2].startswith(b"h")  # the cursor is shown again
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_it(tmp_path):
    terminal = Terminal(tmp_path, PATH="/nowhere")
    eventually(lambda: b"Ctrl-C ends it" in terminal.shown, within=60, what="the view")
    parts = list(children(terminal.process.pid))
    assert len(parts) >= 4
    os.killpg(terminal.process.pid, signal.SIGHUP)  # as a terminal's end does
    terminal.process.wait(20)
    terminal.join()
    terminal.close()
    assert not any(map(alive, parts))
    assert list(tmp_path.iterdir()) == []


# --- What a newcomer sees: the stories that the first test began


@pytest.mark.slow
def test_a_newcomer_sees_the_slots_run_out_and_whose_requests_wait_for_them(played):
    demo = played["slots-exhausted"]
    demo.says(r"12 s +--- batch job begins: A batch job takes every slot\.", within=40)
    demo.says(r"saturated: 6\d of 64 slots, \d+ waiting; .*slow or failed: \d+ queue_slots", within=75)
    admin = demo.says(r"--sidecar (http://\S+)").split()[1]

    def ask(*command: str) -> str:
        asked = [sys.executable, "-m", "vllm_observe", *command, "--sidecar", admin]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout

    def found() -> list[dict[str, str]]:
        return json.loads(ask("requests", "--cause", "queue_slots", "--json"))["requests"]

    slow = eventually(found, within=20, what="a request in the store, which is counted before")[0]
    explained = ask("explain", slow["request_id"])
    assert f"session {slow['session_id']}" in explained
    assert "waited" in explained
    assert "queue_slots" in explained


@pytest.mark.slow
def test_a_hang_is_told_though_health_says_200(played):
    demo = played["hang"]
    demo.says(r"stalled: \d+ running, \d+ waiting and no token for 15 s or more", within=75)
    assert int(demo.text().partition("stalled: ")[0].splitlines()[-1].split()[0]) < 45


@pytest.mark.slow
@pytest.mark.usefixtures("prometheus", "alertmanager")
def test_with_prometheus_and_alertmanager_the_alert_fires_within_the_story(played):
    demo = played["slots-exhausted"]
    demo.says(r"Prometheus http://\S+\n(.*)alerts http://")
    demo.says(r"ALERT VLLMSequenceSlotsExhausted \(critical\): llama-3\.3-70b ", within=75)
    assert len(demo.children()) == 6


@pytest.mark.slow
def test_its_end_sums_up_and_leaves_nothing(played):
    demo = played["slots-exhausted"]
    demo.says(r"slow or failed: \d+ queue_slots", within=75)
    parts = demo.children()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(20) == 0
    demo.says(r"at its worst: saturated: 6\d of 64 slots, \d+ waiting\n", within=0)
    demo.says(r"\d+ requests? waited while every slot was taken \(queue_slots\): \d+ of ", within=0)
    demo.says(r"for example: \S+-user-\S+ took .*: waited .* slots were taken", within=0)
    if len(parts) == 6:
        demo.says(r"alerts that fired: .*VLLMSequenceSlotsExhausted \(critical\)", within=0)
    assert demo.is_gone(parts)


@pytest.mark.slow
def test_nothing_outlives_it_when_it_is_killed(played):
    demo = played["hang"]
    demo.says("Ctrl-C ends it")
    parts = demo.children()
    demo.process.kill()
    demo.process.wait()
    eventually(lambda: demo.is_gone(parts), within=10, what="the end of its parts and of its files")


# --- Wrong use


@pytest.mark.slow
def test_a_sidecar_that_does_not_start_is_told_with_its_own_words(start):
    demo = start("--vllm-url", "http://127.0.0.1:1", "--request-log", "")
    assert demo.process.wait(60) == 1
    assert demo.text().splitlines() == [
        demo.says("vllm-observe: request_logs.*"),
        "vllm-observe: sidecar ended with exit code 2",
    ]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--vllm-url", "ftp://gpu"), "--vllm-url"),
        (("--vllm-url", ""), "--vllm-url"),
        (("--request-log", "app.jsonl"), "--request-log"),
        (("--seconds", "0"), "--seconds"),
        (("--scenario", "thunder"), "--list"),
        (("--scenario", "hang", "--vllm-url", "http://gpu"), "--scenario"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(flags, names, run):
    code, out, err = run("demo", *flags)
    (line,) = err.splitlines()
    assert (code, out) == (2, "")
    assert names in line


def test_every_scenario_is_listed_in_one_line(run):
    code, out, err = run("demo", "--list")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines == {name: SCENARIOS[name].summary for name in STORIES}


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
