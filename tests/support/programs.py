"""Programs that a test starts, waits for, and stops: vLLM, Prometheus, our own command line."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import requests

from support.waiting import eventually


def free_port() -> int:
    """A port of the loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url: str) -> bool:
    """Whether a GET of ``url`` is answered with 200 now."""
    try:
        return requests.get(url, timeout=2).status_code == requests.codes.ok
    except requests.RequestException:
        return False


def tail(log: Path, lines: int = 40) -> str:
    """The end of a log, for a failure's message."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


class Program:
    """A running program. It leads a process group of its own, so its children end with it.

    Attributes:
        log: the file that takes its standard output and standard error.
    """

    def __init__(self, command: Sequence[str | Path], *, log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, url: str, *, within: float) -> None:
        """Wait until ``url`` answers 200; fail at once, with the log's end, where the program ends first."""

        def ready() -> bool:
            code = self._process.poll()
            assert code is None, (
                f"{self.name} ended with exit code {code} before {url} answered\n{tail(self.log)}"
            )
            return answers(url)

        try:
            eventually(ready, within=within, what=f"{url} of {self.name}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{tail(self.log)}") from None

    def stop(self, *, within: float = 30.0) -> int:
        """End the program with SIGTERM, what is left of it after ``within`` seconds with SIGKILL.

        Answers its exit code, which is negative where a signal ended it.
        """
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()


@contextlib.contextmanager
def running(
    command: Sequence[str | Path],
    *,
    ready: str,
    log: Path,
    within: float = 30.0,
) -> Iterator[Program]:
    """A program from the moment it answers at ``ready`` to the end of the block."""
    program = Program(command, log=log)
    try:
        program.wait_for(ready, within=within)
        yield program
    finally:
        program.stop()
