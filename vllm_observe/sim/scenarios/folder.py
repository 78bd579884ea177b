"""A scenario played into a folder, for programs that read files.

metrics.om      what Prometheus would have scraped (backfill.py says how to take it in)
app.jsonl       the app's request log: edge records
vllm.jsonl      the plugin's log: edge and engine records, samples, limits
labels.jsonl    the truth about each request; nothing of the product reads it
scenario.json   what happened when, and what it must lead to
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import msgspec

from vllm_observe.sim.labels import label_line
from vllm_observe.sim.records import line
from vllm_observe.sim.scenarios import backfill
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.virtual import EPOCH, RELEASE, Scrape, Told, play_scenario

__all__ = ["write_scenario"]


def write_scenario(
    scenario: Scenario,
    folder: Path,
    *,
    seed: int = 0,
    scrape_every: float = 5.0,
    release: str = RELEASE,
    epoch: float = EPOCH,
) -> None:
    """Play a scenario and write what is left of it into a folder, which is made if it is not there.

    Args:
        scenario: what happens.
        folder: where to; files of an earlier run are overwritten.
        seed: of all chance.
        scrape_every: seconds between two scrapes.
        release: the vLLM whose page is written.
        epoch: the time of day at second 0.
    """
    folder.mkdir(parents=True, exist_ok=True)
    about = msgspec.json.format(msgspec.json.encode(_about(scenario, seed=seed, epoch=epoch)))
    (folder / "scenario.json").write_bytes(about + b"\n")
    told = play_scenario(scenario, seed=seed, scrape_every=scrape_every, release=release, epoch=epoch)
    with ExitStack() as files:

        def create(name: str) -> IO[bytes]:
            return files.enter_context((folder / name).open("wb"))

        _write(
            told,
            metrics=create("metrics.om"),
            app=create("app.jsonl"),
            vllm=create("vllm.jsonl"),
            labels=create("labels.jsonl"),
        )


def _write(
    told: Iterable[Scrape | Told],
    *,
    metrics: IO[bytes],
    app: IO[bytes],
    vllm: IO[bytes],
    labels: IO[bytes],
) -> None:
    process = None  # the one that wrote its limits last
    for one in told:
        if isinstance(one, Scrape):
            metrics.writelines(text.encode() for text in backfill.samples(one))
            vllm.writelines(_plugin_lines(one, is_new=one.started_at != process))
            process = one.started_at if one.limits is not None else process
            continue
        labels.write(label_line(one.label))
        if one.lines is not None:
            app.write(one.lines.app)
            vllm.write(one.lines.middleware)
            vllm.write(one.lines.engine or b"")
    metrics.write(backfill.END.encode())


def _plugin_lines(scrape: Scrape, *, is_new: bool) -> Iterator[bytes]:
    if is_new and scrape.limits is not None:
        yield line(scrape.limits)
    yield from map(line, scrape.samples)


def _about(scenario: Scenario, *, seed: int, epoch: float) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "summary": scenario.summary,
        "shows": scenario.shows,
        "seed": seed,
        "start": epoch,
        "end": epoch + scenario.seconds,
        "service_class": scenario.service_class,
        "healthy": scenario.healthy,
        "incidents": [
            {
                "name": incident.name,
                "start": epoch + incident.start,
                "end": epoch + incident.end,
                "causes": sorted(cause.value for cause in incident.expected.causes),
                "limit": incident.expected.limit,
                "alerts": incident.expected.alerts,
                "allowed": incident.expected.allowed,
            }
            for incident in scenario.incidents
        ],
    }
