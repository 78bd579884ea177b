"""The demo's processes: all that runs between its start and its end."""

from __future__ import annotations

import glob
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import requests

from vllm_observe.clock import Clock
from vllm_observe.demo.alerting import Alerting, Firing, Programs
from vllm_observe.demo.child import Child, ChildEndedError, Ports, python
from vllm_observe.demo.story import Story
from vllm_observe.engine.address import Address
from vllm_observe.errors import VllmObserveError
from vllm_observe.sim.scenarios.scenario import Scenario

__all__ = ["Demo", "EndedEarlyError", "OwnVllm", "signals_held"]

#: The exporter's usual ports.
_METRICS_PORT, _ADMIN_PORT = 9809, 9810
_READY_WITHIN_S = 30.0
_LOOK_S = 0.05
_TIMEOUT_S = 1.0
_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})

#: What the sidecar of a story is told besides: the story is short, and so is each wait in it.
_HURRY = ("--scrape-interval=1s", "--scrape-timeout=1s", "--stall-after=15s", "--join-window=5s")

#: Removes the folder when its input ends: where the demo was killed nobody else does. A second later
#: the system has killed the other children, too.
_REMOVE = ("/bin/sh", "-c", 'PATH=/usr/bin:/bin; read -r _; sleep 1; rm -rf -- "$0"')

_Found = TypeVar("_Found")


class EndedEarlyError(VllmObserveError):
    """The demo was ended while it started."""


class OwnVllm:
    """A vLLM of the user's own, to be watched in place of the simulated one.

    Args:
        url: its address.
        request_logs: the logs of what it is asked.

    Raises:
        ConfigError: the address is none.

    Attributes:
        pressed_by: what every span of time in the alerting rules is divided by.
    """

    pressed_by = 1

    def __init__(self, url: str, request_logs: Sequence[str]) -> None:
        self.about = f"your vLLM at {Address.parse(url).origin}"
        self.flags = ("--vllm-url", url, *(f"--request-log={log}" for log in request_logs))
        self.has_requests = bool(request_logs)


class Demo(AbstractContextManager["Demo"]):
    """Everything that the demo starts, until the end of the block.

    Start it in the main thread, before there are others.

    Args:
        watched: the story to play, or a vLLM to watch.
        found: the programs for alerts.
        clock: tells the time.
        ended: waits for so many seconds, and says whether the demo is to end.

    Attributes:
        metrics, admin: the addresses of the sidecar's pages.
        alerting: Prometheus and Alertmanager; ``None`` where they do not run.
        without_alerts: why not.
    """

    def __init__(
        self, watched: Story | OwnVllm, *, found: Programs, clock: Clock, ended: Callable[[float], bool]
    ) -> None:
        self.watched = watched
        self._found = found
        self._clock = clock
        self._ended = ended
        self._children: list[Child] = []
        self._stack = ExitStack()
        self._began = clock.monotonic()
        self.metrics = self.admin = ""
        self.alerting: Alerting | None = None
        self.without_alerts = found.missing

    def start(self) -> None:
        """Start all parts; the story begins as soon as its server is there, the looking at another with the end.

        Raises:
            ChildEndedError: a part did not start.
            EndedEarlyError: the demo is to end before that.
        """
        ports = self._stack.enter_context(Ports())
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vllm-observe-demo-")))
        self._child("remover", (*_REMOVE, folder), folder, stays=True)
        watched = self.watched
        flags = self._play(watched.scenario, folder) if isinstance(watched, Story) else watched.flags
        metrics, admin = ports.take(_METRICS_PORT), ports.take(_ADMIN_PORT)
        self.metrics, self.admin = f"http://{metrics}", f"http://{admin}"
        listen = (f"--store={folder / 'requests.sqlite'}", f"--listen={metrics}", f"--admin-listen={admin}")
        self._child("sidecar", python("vllm_observe", "exporter", *flags, *listen), folder)
        if self._found.missing is None:
            self.alerting = Alerting(
                self._found,
                sidecar=metrics,
                admin=admin,
                pressed_by=watched.pressed_by,
                folder=folder,
                ports=ports,
            )
            self._stack.enter_context(self.alerting).start()
        self._await("the sidecar", self._sidecar_answers)
        if not isinstance(watched, Story):
            self._began = self._clock.monotonic()

    def _child(self, name: str, command: Sequence[str | Path], folder: Path, *, stays: bool = False) -> Child:
        child = self._stack.enter_context(Child(name, command, folder, stays=stays))
        self._children.append(child)
        return child

    def _play(self, scenario: Scenario, folder: Path) -> Sequence[str]:
        """Begin the story; return the sidecar's flags for it."""
        app_log, vllm_log = folder / "app.jsonl", folder / "vllm.jsonl"
        server = python("vllm_observe.demo.server", scenario.name, vllm_log)
        app = python("vllm_observe.demo.app", scenario.name, app_log)
        serving, asking = self._child("vllm", server, folder), self._child("app", app, folder)
        url = self._await("the simulated vLLM", serving.said)
        self._began = self._clock.monotonic()
        asking.tell(url)
        return (
            f"--vllm-url={url}",
            *(f"--request-log={glob.escape(str(log))}" for log in (app_log, vllm_log)),
            f"--service-class={scenario.service_class.value}",
            *_HURRY,
        )

    def _await(self, name: str, probe: Callable[[], _Found | None]) -> _Found:
        """Wait until a part gives something."""
        deadline = self._clock.monotonic() + _READY_WITHIN_S
        while not (found := probe()):
            self.check()
            if self._clock.monotonic() > deadline:
                raise VllmObserveError(f"{name} has not answered within {_READY_WITHIN_S:g} s")
            if self._ended(_LOOK_S):
                raise EndedEarlyError("ended while it started")
        return found

    def _sidecar_answers(self) -> bool:
        with requests.Session() as session:
            session.trust_env = False  # no proxy stands between us and our own child
            try:
                return session.get(f"{self.metrics}/healthz", timeout=_TIMEOUT_S).ok
            except requests.RequestException:
                return False

    @property
    def now(self) -> float:
        """Seconds since the story began, or the looking at a vLLM of one's own."""
        return self._clock.monotonic() - self._began

    def check(self) -> None:
        """Make sure that all parts run. Without those for alerts the demo goes on.

        Raises:
            ChildEndedError: another one does not.
        """
        for child in self._children:
            child.check()
        if self.alerting is not None:
            try:
                self.alerting.check()
            except ChildEndedError as error:
                self.alerting, self.without_alerts = None, f"no alerts: {error}"

    def firing(self) -> tuple[Firing, ...]:
        """Return the alerts that fire."""
        return () if self.alerting is None else self.alerting.firing()

    def __exit__(self, *_: object) -> None:
        """End all parts, the last to start first, and remove their files."""
        for child in self._children:
            child.end()  # together they take no longer than the slowest
        self._stack.close()


@contextmanager
def signals_held() -> Iterator[Callable[[float], bool]]:
    """Hold back what asks this process to end; give a wait of so many seconds that says whether it came.

    Nothing is interrupted, so everything that was begun is also ended.
    """
    over = False

    def came(seconds: float) -> bool:
        nonlocal over
        over = over or signal.sigtimedwait(_SIGNALS, seconds) is not None
        return over

    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield came
    finally:
        while signal.sigtimedwait(_SIGNALS, 0) is not None:  # an impatient second Ctrl-C
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
