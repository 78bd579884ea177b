"""One play on a real stage: vLLM, an app that loads it, the sidecar, and Prometheus.

A start of vLLM takes 40 s, so the tests share one play of two acts. Each act notes when it ended,
and the tests ask Prometheus about that time; so their order does not matter.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support import cores
from support.cores import kept_to
from support.load import App
from support.programs import free_port, running, tail
from support.prometheus import Prometheus, prometheus_for
from support.vllm import VllmServer, install_vllm
from support.waiting import becomes

AT_ONCE = 24
SLOTS = 8
WAVES = 6  # at most
COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total")
FOLDER = pytest.StashKey[Path]()


class Act(NamedTuple):
    """What happened between two times.

    Attributes:
        log: what the app wrote down about the requests that it sent meanwhile.
        engine: the totals of some of vLLM's counters at the end, from its own page.
    """

    began: float
    ended: float
    log: list[dict[str, Any]]
    engine: dict[str, float]

    @property
    def length(self) -> str:
        """The act's length as a duration of PromQL."""
        return f"{int(self.ended - self.began) + 1}s"


@dataclass(frozen=True)
class Restart:
    """The second act: vLLM went away, and came back at the same port.

    Attributes:
        down_at: a time at which vLLM had been away for more than three of the sidecar's intervals.
        act: from before it went until the sidecar saw it serve again.
    """

    down_at: float
    act: Act


@pytest.fixture(scope="session", autouse=True)
def _leave_vllm_its_core() -> Iterator[None]:
    """Run the tests, and whatever they start beside vLLM, on the other cores."""
    with kept_to(cores.WATCHERS):
        yield


@pytest.fixture(scope="session", autouse=True)
def _end_programs_on_sigterm() -> Iterator[None]:
    """Let a CI that gives up take down the programs too: SIGTERM ends the run as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def release() -> str:
    """The release of vLLM to test with: ``VLLM_RELEASE``, else the newest that we install."""
    return os.environ.get("VLLM_RELEASE", "0.32.0")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Where the programs keep their logs and their data."""
    return request.config.stash.setdefault(FOLDER, tmp_path_factory.mktemp("stage"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Show the ends of the programs' logs beside a test that failed."""
    report = yield
    if report.failed and FOLDER in item.config.stash:
        for log in sorted(item.config.stash[FOLDER].glob("*.log")):
            report.sections.append((f"end of {log}", tail(log)))
    return report


@pytest.fixture(scope="session")
def vllm(release: str, folder: Path) -> Iterator[VllmServer]:
    """A server with eight slots."""
    install_vllm(release)
    server = VllmServer(release, log=folder / "vllm.log", options=[f"--max-num-seqs={SLOTS}"])
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def app(vllm: VllmServer, folder: Path) -> App:
    """An app that asks that server and keeps a request log."""
    return App(vllm.url, folder / "requests.jsonl")


@pytest.fixture(scope="session")
def sidecar(vllm: VllmServer, app: App, folder: Path) -> Iterator[str]:
    """The ``host:port`` of a sidecar that is told nothing of vLLM but its address."""
    listen = f"127.0.0.1:{free_port()}"
    command = [
        Path(sys.executable).with_name("vllm-observe"),
        "exporter",
        *("--vllm-url", vllm.url),
        *("--request-log", app.log),
        *("--listen", listen),
        *("--admin-listen", f"127.0.0.1:{free_port()}"),
        *("--scrape-interval", "1s"),
        *("--join-window", "5s"),
    ]
    with running(command, ready=f"http://{listen}/readyz", log=folder / "sidecar.log"):
        yield listen


@pytest.fixture(scope="session")
def stage(prometheus: Path, sidecar: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the sidecar, and not vLLM."""
    with prometheus_for(prometheus, {"sidecar": sidecar}, folder) as server:
        becomes(1.0, lambda: server.value("up"), within=30)
        yield server


def _end_of_act(stage: Prometheus, vllm: VllmServer, *, requests: int) -> dict[str, float]:
    """Wait until Prometheus has all that happened; answer the totals on vLLM's own page."""
    engine = {counter: vllm.total(counter) for counter in COUNTERS}
    expected = {**engine, "vllm_observe_requests_total": requests}
    becomes(expected, lambda: {name: stage.value(f"sum({name})") for name in expected}, within=30)
    return engine


@pytest.fixture(scope="session")
def loaded(stage: Prometheus, vllm: VllmServer, app: App) -> Act:
    """The first act: three times as many requests at once as vLLM has slots.

    On a busy machine vLLM answers no scrape for seconds, so the load goes on until one met it.
    """
    began = time.time()
    records: list[dict[str, Any]] = []
    for wave in range(WAVES):
        records += app.send(48, at_once=AT_ONCE, name=f"first-{wave}")
        if stage.value("max_over_time(vllm:num_requests_running[5m])") == SLOTS:
            break
    engine = _end_of_act(stage, vllm, requests=len(records))
    return Act(began, time.time(), records, engine)


@pytest.fixture(scope="session")
def restarted(stage: Prometheus, vllm: VllmServer, app: App, loaded: Act) -> Restart:
    """The second act: vLLM goes away, and the app stays quiet until it is back."""
    began = time.time()
    vllm.stop()
    becomes(
        (0.0, []),
        lambda: (stage.value("vllm_observe_scrape_success"), stage.query("vllm:num_requests_running")),
        within=30,
    )
    down_at = time.time()
    vllm.start()
    records = app.send(24, at_once=AT_ONCE, name="second")
    engine = _end_of_act(stage, vllm, requests=len(loaded.log) + len(records))
    return Restart(down_at, Act(began, time.time(), records, engine))
