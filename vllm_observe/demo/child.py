"""A program as a child process that never outlives its parent, and the ports that children may have."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path

from vllm_observe.config import PREFIX
from vllm_observe.errors import VllmObserveError

__all__ = ["Child", "ChildEndedError", "Ports", "python"]

#: The slowest, the sidecar, closes within five seconds.
_END_WITHIN_S = 6.0
_LAST_LINES = 5
_PR_SET_PDEATHSIG = 1  # prctl(2)
_LOOPBACK = "127.0.0.1"


class ChildEndedError(VllmObserveError):
    """A child ended by itself; ``log`` holds its last lines."""

    def __init__(self, name: str, code: int, log: str) -> None:
        super().__init__(f"{name} ended with exit code {code}")
        self.log = log


class Child(AbstractContextManager["Child"]):
    """A running program, which ends with the block.

    Start it in the main thread and before there are others: it is forked, and the system ends it when
    the thread that started it ends. Its standard input ends then, too.

    Args:
        name: what it is, for a person.
        command: its command line. Settings in the environment do not reach it.
        folder: takes what it says, in files of that name.
        inside: whether it runs in that folder.
        stays: whether the system lets it be when its parent is gone.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        inside: bool = False,
        stays: bool = False,
    ) -> None:
        self.name = name
        self._out, self._log = folder / f"{name}.out", folder / f"{name}.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # programs that the demo is made of
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                env=environment,
                cwd=folder if inside else None,
                start_new_session=True,  # Ctrl-C is for the parent, which looks once more first
                preexec_fn=_let_signals_in if stays else _end_with_parent,  # noqa: PLW1509  # no other thread runs yet
            )
        assert self._process.stdin is not None  # noqa: S101  # it is a pipe
        self._input = self._process.stdin

    def check(self) -> None:
        """Make sure that it runs.

        Raises:
            ChildEndedError: it does not.
        """
        code = self._process.poll()
        if code is not None:
            lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            raise ChildEndedError(self.name, code, "\n".join(lines[-_LAST_LINES:]))

    def said(self) -> str | None:
        """Return the first whole line of its standard output, once there is one."""
        line, end, _ = self._out.read_text(encoding="utf-8", errors="replace").partition("\n")
        return line if end else None

    def tell(self, line: str) -> None:
        """Write a line to its standard input, if it still reads."""
        with suppress(OSError):
            self._input.write(f"{line}\n".encode())
            self._input.flush()

    def end(self) -> None:
        """Ask it to end, without waiting."""
        self._process.terminate()

    def __exit__(self, *_: object) -> None:
        """End it, by force if it takes too long."""
        self.end()
        try:
            self._process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            self._input.close()


def python(module: str, *arguments: str | Path) -> list[str | Path]:
    """Return the command line of a module of this program."""
    return [sys.executable, "-m", module, *arguments]


_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)  # Linux has it


def _let_signals_in() -> None:
    """Let signals reach a child: it inherits that its parent holds them back."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _end_with_parent() -> None:
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _let_signals_in()


class Ports(AbstractContextManager["Ports"]):
    """Ports of the loopback for children, which no other demo takes until the end of the block.

    Between the look whether a port is free and the child's own bind there is a moment in which another
    demo may look. So each port is claimed by a name in the system's abstract sockets, which live as long
    as the process that bound them and leave nothing behind.
    """

    def __init__(self) -> None:
        self._claims = ExitStack()

    def take(self, usual: int) -> str:
        """Return a loopback address with the usual port, or with another where that one is taken."""
        while not (_is_free(usual) and self._claim(usual)):
            usual = _any_free()
        return f"{_LOOPBACK}:{usual}"

    def _claim(self, port: int) -> bool:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0vllm-observe-demo-{port}")
        except OSError:
            claim.close()
            return False
        self._claims.enter_context(claim)
        return True

    def __exit__(self, *_: object) -> None:
        """Give them back."""
        self._claims.close()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as every server does
        try:
            probe.bind((_LOOPBACK, port))
            probe.listen()  # a port can be bound and yet not be free
        except OSError:
            return False
    return True


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
