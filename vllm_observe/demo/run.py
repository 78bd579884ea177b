"""The demo from its start to its end, told line by line."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vllm_observe.clock import Clock
from vllm_observe.demo.child import SidecarProcess, free_addresses
from vllm_observe.demo.report import Page, PageReader
from vllm_observe.demo.stage import OwnVllm, RecordedVllm, Stage
from vllm_observe.errors import VllmObserveError

__all__ = ["run"]

#: The exporter's usual ports.
_PORTS = 9809, 9810
_TELL_EVERY_S = 3.0
_READY_WITHIN_S = 30.0
_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def run(
    *,
    vllm_url: str | None,
    request_logs: Sequence[str],
    seconds: float | None,
    program: str,
    say: Callable[[str], None],
    clock: Clock,
) -> None:
    """Run the demo until a signal or so many seconds end it.

    Args:
        vllm_url: a vLLM to watch in place of the recorded one.
        request_logs: the logs of what was asked of it.
        seconds: ``None`` leaves the end to a signal.
        program: how this program is called, for a command that the user may want to type.
        say: takes each line for the user.
        clock: tells the time.

    Raises:
        SidecarEndedError: the sidecar did not start, or ended before its time.
    """
    with ExitStack() as stack:
        ended = stack.enter_context(_signals_held())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vllm-observe-demo-")))
        stage = (
            OwnVllm(vllm_url, request_logs) if vllm_url is not None else RecordedVllm(directory, clock=clock)
        )
        stack.enter_context(stage)
        metrics, admin = free_addresses(*_PORTS)
        flags = [*stage.flags, "--listen", metrics, "--admin-listen", admin]
        sidecar = stack.enter_context(SidecarProcess(flags, log=directory / "sidecar.log"))
        stage.start()
        reader = PageReader(f"http://{metrics}/metrics")
        begun = clock.monotonic()
        while reader.read() is None:
            sidecar.check()
            if clock.monotonic() > begun + _READY_WITHIN_S:
                raise VllmObserveError(f"the sidecar has not answered within {_READY_WITHIN_S:g} s")
            if ended(0.1):
                return
        say(f"{stage.about}, and the sidecar beside it: http://{metrics}/metrics")
        say(f"look from another terminal: {program} status --sidecar http://{admin}")
        say(f"{stage.plan}; Ctrl-C ends it")
        stage.play()
        begun = clock.monotonic()
        while not ended(_pause(clock.monotonic() - begun, seconds)):
            sidecar.check()
            now = clock.monotonic() - begun
            if seconds is not None and now >= seconds:
                break
            say(f"{now:3.0f} s  {_now(reader.read())}")
        for line in _summary(reader.read(), stage):
            say(line)


def _pause(now: float, seconds: float | None) -> float:
    """Return the seconds to the next line, or to the end if that comes first."""
    pause = _TELL_EVERY_S - now % _TELL_EVERY_S
    return pause if seconds is None else max(0.0, min(pause, seconds - now))


def _now(page: Page | None) -> str:
    return "the sidecar does not answer" if page is None else page.now


def _summary(page: Page | None, stage: Stage) -> Iterable[str]:
    if not stage.has_requests:
        return ["without a request log nobody can say whose requests were slow: give --request-log"]
    return [_now(page)] if page is None else page.summary


@contextmanager
def _signals_held() -> Iterator[Callable[[float], bool]]:
    """Hold back what asks this process to end; give a wait of so many seconds that says whether it came.

    Nothing is interrupted, so everything that was begun is also ended.
    """

    def came(seconds: float) -> bool:
        return signal.sigtimedwait(_SIGNALS, seconds) is not None

    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield came
    finally:
        while came(0):  # an impatient second Ctrl-C
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
