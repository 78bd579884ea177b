"""The real sidecar as a child process that never outlives its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from vllm_observe.config import PREFIX
from vllm_observe.errors import VllmObserveError

__all__ = ["SidecarEndedError", "SidecarProcess", "free_addresses"]

#: The sidecar closes within five seconds.
_END_WITHIN_S = 6.0
_LAST_LINES = 5
_PR_SET_PDEATHSIG = 1  # prctl(2)


class SidecarEndedError(VllmObserveError):
    """The sidecar ended by itself; ``log`` holds its last lines."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(f"the sidecar ended with exit code {code}")
        self.log = log


class SidecarProcess(AbstractContextManager["SidecarProcess"]):
    """A running ``vllm-observe exporter``, which ends with the block.

    Start it in the main thread and before there are others: it is forked, and the system ends it when
    the thread that started it ends.

    Args:
        flags: its command line. Settings in the environment do not reach it.
        log: the file that takes its log.
    """

    def __init__(self, flags: Sequence[str], *, log: Path) -> None:
        self._log = log
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  # this very program
                [sys.executable, "-m", "vllm_observe", "exporter", *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the parent, which asks for the last page first
                preexec_fn=_end_with_parent,  # noqa: PLW1509  # no other thread is running yet
            )

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            SidecarEndedError: it does not.
        """
        code = self._process.poll()
        if code is not None:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise SidecarEndedError(code, "\n".join(lines[-_LAST_LINES:]))

    def __exit__(self, *_: object) -> None:
        """End it, by force if it takes too long."""
        self._process.terminate()
        try:
            self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it


def _end_with_parent() -> None:
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)


def free_addresses(*ports: int) -> list[str]:
    """Return a loopback address for each port, with another port where that one is taken."""
    with ExitStack() as stack:
        probes = [stack.enter_context(_bound(port)) for port in ports]
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]


def _bound(port: int) -> socket.socket:
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the sidecar does
    try:
        probe.bind(("127.0.0.1", port))
        probe.listen()  # a port can be bound and yet not be free
    except OSError:
        probe.close()
        if port == 0:
            raise
        return _bound(0)
    return probe
