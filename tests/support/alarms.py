"""Scenarios through a real pipeline into the rules: what would have been heard, and when.

The simulated server answers a real sidecar's scrapes, its logs are read by it, and the page that it then
serves is what Prometheus sees. promtool evaluates the rules on that, as the Prometheus that it is made of
would: with recordings, ``for`` and ``keep_firing_for``.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from http_double import HttpDouble, http_double, raw, whole
from support.rules import Rendered, run
from vllm_observe.clock import ManualClock
from vllm_observe.config import RequestLog, Settings
from vllm_observe.pipeline import Pipeline
from vllm_observe.serve.render import Format
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.virtual import EPOCH, Scrape, Told, play_scenario

#: Seconds between two scrapes of the sidecar's and of Prometheus's, and between two evaluations.
STEP = 30
TARGET = {"job": "vllm", "instance": "vllm-0:9809"}

Series = tuple[str, tuple[tuple[str, str], ...]]


class Heard(NamedTuple):
    """An alert that fired, and from which second of the scenario on."""

    alert: str
    severity: str
    at: float


def heard(scenario: Scenario, rules: Rendered, promtool: Path, folder: Path) -> list[Heard]:
    """All that fires in a scenario, in the order of time.

    Args:
        scenario: what happens.
        rules: the rules for a sidecar's page.
        promtool: evaluates them.
        folder: an empty folder for what lies between.
    """
    asked = re.findall(
        r"\b(?:vllm:|vllm_observe_|http_|up\b)[a-z0-9_]*", "".join(f.read_text() for f in rules.files)
    )
    values: dict[Series, list[str]] = defaultdict(list)
    for number, page in enumerate(_pages(scenario, folder)):
        seen = {("up", tuple(TARGET.items())): 1.0}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name in asked:
                    seen[sample.name, tuple({**sample.labels, **TARGET}.items())] = sample.value
        for series in seen.keys() | values.keys():
            told = values[series]
            told += ["_"] * (number - len(told))
            gone = told and told[-1] not in {"_", "stale"}
            told.append(f"{seen[series]!r}" if series in seen else "stale" if gone else "_")
    return _fired(values, rules, promtool, folder, seconds=scenario.seconds)


def _pages(scenario: Scenario, folder: Path) -> Iterator[str]:
    """What the sidecar serves, scrape by scrape."""
    logs = {side: folder / f"{side}.jsonl" for side in ("app", "middleware", "engine")}
    for log in logs.values():
        log.touch()
    clock = ManualClock(wall=EPOCH)
    with http_double() as server:
        settings = Settings(
            vllm_url=server.url,
            request_logs=[RequestLog(path=str(log)) for log in logs.values()],
            service_class=scenario.service_class,
            max_num_seqs=scenario.limits.max_num_seqs,
            scrape_interval=STEP,
        )
        pipeline = Pipeline(settings, clock=clock)
        pending: dict[str, list[bytes]] = {side: [] for side in logs}
        for told in play_scenario(scenario, scrape_every=STEP):
            if isinstance(told, Told):
                for side in logs if told.lines is not None else ():
                    pending[side].append(getattr(told.lines, side) or b"")
                continue
            clock.advance(told.at - clock.wall())
            for side, lines in pending.items():
                with logs[side].open("ab") as log:
                    log.writelines(lines)
                lines.clear()
            _show(server, told)
            pipeline.scrape()
            pipeline.follow()
            yield pipeline.page(Format.OPENMETRICS_1_0).decode()
        pipeline.stop_scraping()
        pipeline.drain(within=1)


def _show(server: HttpDouble, scrape: Scrape) -> None:
    if scrape.page is not None:
        server.answers["/metrics"] = whole(scrape.page.encode(), content_type="text/plain; version=0.0.4")
    elif scrape.samples:  # it serves, and /metrics alone fails
        server.answers["/metrics"] = whole(b"", status=500)
    else:
        server.answers["/metrics"] = raw(b"")  # hangs up


def _fired(
    values: dict[Series, list[str]], rules: Rendered, promtool: Path, folder: Path, *, seconds: float
) -> list[Heard]:
    first = 'ALERTS{alertstate="firing"}'
    replay = {
        "rule_files": [str(file) for file in rules.files],
        "evaluation_interval": f"{STEP}s",
        "tests": [
            {
                "interval": f"{STEP}s",
                "input_series": [
                    {"series": f"{name}{{{_labels(labels)}}}", "values": " ".join(told)}
                    for (name, labels), told in values.items()
                ],
                "promql_expr_test": [
                    {
                        # Nothing is expected: promtool tells what there is instead.
                        "expr": "min by (alertname, severity) "
                        f"(min_over_time(timestamp({first})[{math.ceil(seconds)}s:{STEP}s]))",
                        "eval_time": f"{math.floor(seconds)}s",
                        "exp_samples": [],
                    }
                ],
            }
        ],
    }
    file = folder / "replay.yaml"
    file.write_text(json.dumps(replay))  # which is YAML, and fast
    done = run(promtool, "test", "rules", file)
    said = done.stdout + done.stderr
    assert "parse" not in said, said[:2000]
    found = re.findall(r'\{alertname="(\w+)", severity="(\w+)"\} ([0-9.E+]+)', said)
    # The first sample is of the first scrape, one step after the beginning.
    return sorted(
        (Heard(name, severity, float(at) + STEP) for name, severity, at in found), key=lambda one: one.at
    )


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels)
