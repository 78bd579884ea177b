"""Every query of every board on a real vLLM under load, through the sidecar and without it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.load import App
from support.prometheus import Prometheus, prometheus_for
from support.proof import Has, Server
from support.vllm import VllmServer
from support.waiting import becomes
from vllm_observe.dashboards import Options

AT_ONCE = 24
REQUESTS = 96
DONE = "sum(vllm_observe_requests_total)"


class Watched(NamedTuple):
    """A Prometheus that scraped a loaded vLLM, and when."""

    prometheus: Prometheus
    began: float
    ended: float

    def server(self, job: str) -> Server:
        """That vLLM, as one of the two jobs scraped it."""
        (up,) = self.prometheus.query(f'up{{job="{job}"}}')
        return Server(
            self.prometheus,
            job=job,
            instance=up.labels["instance"],
            options=Options(),
            start=self.began,
            end=self.ended,
            step=1.0,
        )


@pytest.fixture(scope="module")
def watched(
    prometheus: Path, sidecar: str, vllm: VllmServer, app: App, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    targets = {"sidecar": sidecar, "vllm": vllm.url.removeprefix("http://")}
    with prometheus_for(prometheus, targets, tmp_path_factory.mktemp("boards")) as server:
        becomes(2.0, lambda: server.value("sum(up)"), within=30)
        before = server.value(DONE) or 0.0
        began = time.time()
        app.send(REQUESTS, at_once=AT_ONCE, name="boards")
        becomes(before + REQUESTS, lambda: server.value(DONE), within=60)
        # The points of the boards' subqueries stand at whole minutes, and a fast machine is done before the first.
        started = "count_over_time(process_start_time_seconds[5m:1m])"
        becomes(2, lambda: len(server.query(started)), within=90)
        yield Watched(server, began, time.time() + 1)  # so that the last point asked for is not before it


@pytest.mark.parametrize("job", ["sidecar", "vllm"])
def test_no_panel_is_blank_where_a_real_vllm_has_its_signal(watched, job):
    proven = list(watched.server(job).proven())

    blank = [f"{one.board}: {one.panel}: {query}" for one in proven for query in one.blank]
    assert not blank, "\n".join(blank)


def test_the_overview_of_a_loaded_vllm_is_whole(watched):
    empty = [
        one.panel
        for one in watched.server("sidecar").proven()
        if one.board == "overview" and one.has is not Has.DATA
    ]

    assert set(empty) <= {"Alerts firing", "Firing alerts"}  # no rules are loaded
