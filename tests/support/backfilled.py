"""A simulated run in a real Prometheus, hours in seconds: as each release's page, and as the sidecar's.

Whatever a simulated server did can be shown as any release would have shown it, with all options set of
which boards have panels; a sidecar looks at each of these pages and reads the same requests' log. All
pages go into Prometheus with their times (``promtool tsdb create-blocks-from openmetrics``), as if it had
scraped them.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from http_double import HttpDouble, http_double, whole
from support.optional import with_options
from support.prometheus import Prometheus, prometheus_for
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog, Settings
from vllm_observe.model import ServiceClass
from vllm_observe.pipeline import Pipeline
from vllm_observe.serve.render import Format
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.exposition import Exposition
from vllm_observe.sim.pages import Flavour
from vllm_observe.sim.scenarios.backfill import END, samples
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.virtual import Play, Scrape, Told

#: The beginning of one of Prometheus's blocks of two hours: what is shorter is one block.
EPOCH = 7200.0 * 240_000


#: The job of the sidecars, and that of the same servers scraped without one.
SIDECAR, DIRECT = "sidecar", "vllm"


@dataclass(frozen=True)
class Shown:
    """How a server is shown: as a release with one of its two engines.

    Attributes:
        inside: whether the plugin runs in it, so that its log tells what the engine did.
        service_class: whose latency targets its sidecar is told.
        options: whether all options are set of which boards have panels.
        host: its name, if it is not called by what it shows.
    """

    release: str
    flavour: Flavour = Flavour.V1
    inside: bool = True
    service_class: ServiceClass = ServiceClass.INTERACTIVE
    options: bool = True
    host: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        engine = " (V0)" if self.flavour is Flavour.V0 else ""
        return f"{self.release}{engine}{', batch' if self.service_class is ServiceClass.BATCH else ''}"

    @property
    def instance(self) -> str:
        """The name under which it is scraped."""
        host = self.host or f"{self.release}-{self.flavour.value}-{self.service_class.value}"
        return f"{host}:8000"


class Played(NamedTuple):
    """A server with what befalls it, and all the ways in which it is shown."""

    scenario: Scenario
    showings: Sequence[Shown]
    seed: int = 1


class _Watched:
    """A sidecar that looks at one showing of the server, and reads the requests' log."""

    def __init__(self, shown: Shown, server: HttpDouble, log: Path, *, slots: int) -> None:
        self._shown, self._server, self._log = shown, server, log
        self._clock = ManualClock(wall=EPOCH)
        told = json.dumps({"version": shown.release}).encode()
        server.answers[f"/{shown.instance}/version"] = whole(told, content_type="application/json")
        settings = Settings(
            vllm_url=f"{server.url}/{shown.instance}",
            max_num_seqs=slots,
            request_logs=[RequestLog(path=str(log), start="beginning")],
            store=log.with_suffix(".sqlite"),
            join_window=5,
            service_class=shown.service_class,
        )
        self._pipeline = Pipeline(settings, clock=self._clock)
        self._exposition = Exposition(shown.release, flavour=shown.flavour, epoch=EPOCH)

    def take(self, told: Told) -> None:
        """Write a request that ended into the log."""
        if told.lines is not None:
            inside = (told.lines.middleware, told.lines.engine or b"") if self._shown.inside else ()
            with self._log.open("ab") as log:
                log.writelines((told.lines.app, *inside))

    def _page(self, deployment: Deployment, scrape: Scrape) -> str:
        """What the server shows."""
        page = self._exposition.text(deployment) + _of_process(scrape)
        if not self._shown.options:
            return page
        return with_options(
            page,
            self._shown.release,
            self._shown.flavour,
            model=deployment.model,
            started=scrape.started_at,
            now=scrape.at,
        )

    def see(self, play: Play, scrape: Scrape) -> tuple[str | None, str]:
        """Look at the server at a time; answer its page, if it answers, and the sidecar's."""
        self._clock.advance(scrape.at - self._clock.wall())
        page = self._page(play.deployment, scrape) if scrape.answers else None
        answer = whole(b"", status=503) if page is None else whole(page.encode(), content_type="text/plain")
        self._server.answers[f"/{self._shown.instance}/metrics"] = answer
        self._pipeline.scrape()
        self._pipeline.read_limits()
        self._pipeline.follow()
        self._pipeline.flush_store()
        return page, self._pipeline.page(Format.TEXT_0_0_4).decode()

    def close(self) -> None:
        """End as a sidecar does."""
        self._pipeline.stop_scraping()
        self._pipeline.drain(0)


def write_samples(file: IO[str], fleet: Sequence[Played], folder: Path, *, every: float = 10.0) -> None:
    """Play scenarios, and write what Prometheus would have scraped from their servers and the sidecars.

    Args:
        file: takes OpenMetrics with times.
        fleet: each is played once, for all its showings.
        folder: for the requests' logs.
        every: seconds between two scrapes.
    """
    with http_double() as server:
        courses = [_course(played, server, folder, every) for played in fleet]
        last = 0.0
        for at, lines in heapq.merge(*courses, key=lambda scraped: scraped[0]):
            file.writelines(lines)
            if at > last:
                file.writelines(_of_others(at))
            last = at


def _course(
    played: Played, server: HttpDouble, folder: Path, every: float
) -> Iterator[tuple[float, Sequence[str]]]:
    """Play a scenario; tell of each scrape its time and its samples."""
    play = Play(played.scenario, seed=played.seed, release=None, epoch=EPOCH)
    slots = played.scenario.limits.slots
    watched = [
        _Watched(shown, server, folder / f"{shown.instance}.jsonl", slots=slots) for shown in played.showings
    ]
    for told in play.run(every):
        if isinstance(told, Told):
            for one in watched:
                one.take(told)
            continue
        lines: list[str] = []
        for shown, one in zip(played.showings, watched, strict=True):
            for job, page in zip((DIRECT, SIDECAR), one.see(play, told), strict=True):
                seen = told._replace(page=page, answers=page is not None)
                lines += samples(seen, job=job, instance=shown.instance)
                lines += _of_prometheus(page, told.at, job=job, instance=shown.instance)
        yield told.at, lines
    for one in watched:
        one.close()


def _of_process(scrape: Scrape) -> str:
    """What the Python client tells of vLLM's API process, where there is one."""
    told = {
        ("process_start_time_seconds", "gauge"): scrape.started_at,
        ("process_cpu_seconds_total", "counter"): 0.3 * (scrape.at - scrape.started_at),
        ("process_resident_memory_bytes", "gauge"): 3.2e9,
    }
    return "".join(f"# TYPE {name} {kind}\n{name} {value!r}\n" for (name, kind), value in told.items())


def _of_prometheus(page: str | None, at: float, *, job: str, instance: str) -> Iterator[str]:
    """What Prometheus adds to each scrape."""
    read = sum(not line.startswith("#") for line in (page or "").splitlines())
    for name, value in (("scrape_duration_seconds", 0.01), ("scrape_samples_scraped", read)):
        yield f'{name}{{job="{job}",instance="{instance}"}} {value} {at:.3f}\n'


_FIRING = {
    "VLLMEngineStalled": "critical",
    "VLLMSequenceSlotsExhausted": "warning",
    "VLLMObserveLimitsUnknown": "info",
}


def _of_others(at: float) -> Iterator[str]:
    """An alert of ours of each severity that fires, as Prometheus stores it, and a GPU, as NVIDIA's DCGM exporter shows it."""
    for name, severity in _FIRING.items():
        alert = f'alertname="{name}",alertstate="firing",severity="{severity}",model_name=""'
        yield f"ALERTS{{{alert}}} 1 {at:.3f}\n"
    gpu = 'gpu="0",Hostname="gpu-node-1",job="dcgm",instance="gpu-node-1:9400"'
    gauges = {
        "GPU_UTIL": 97,
        "FB_USED": 72_000,
        "FB_FREE": 8_000,
        "GPU_TEMP": 71,
        "POWER_USAGE": 640,
        "XID_ERRORS": 0,
    }
    for name, value in gauges.items():
        yield f"DCGM_FI_DEV_{name}{{{gpu}}} {value} {at:.3f}\n"


@contextlib.contextmanager
def backfilled(promtool: Path, prometheus: Path, samples_file: Path, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that holds a file of samples with times, and scrapes nothing."""
    with samples_file.open("a", encoding="utf-8") as written:
        written.write(END)
    command = [
        promtool,
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--quiet",
        samples_file,
        folder / "data",
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    with prometheus_for(prometheus, {}, folder) as server:
        yield server
