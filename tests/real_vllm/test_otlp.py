"""A real vLLM without anything of ours in it: its spans, sent to the sidecar, and its own log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.load import App, Use
from support.programs import free_port
from support.sidecar import sidecar
from support.vllm import VllmServer, install_vllm
from support.waiting import becomes
from vllm_observe.clock import SystemClock
from vllm_observe.model import EngineRecord
from vllm_observe.records.formats.vllm_log import VllmLog

REQUESTS = 24
AT_ONCE = 12
USES = (Use("short", 50, 20), Use("long", 400, 120))
SPANS = 'vllm_observe_spans_total{result="%s"}'
JOINED = 'vllm_observe_join_closed_total{parts="%s"}'


class Play(NamedTuple):
    """What the app wrote down of its requests, the sidecar's page afterwards, and what vLLM's log tells."""

    sent: list[dict[str, Any]]
    spans: dict[str, float | None]
    joined: dict[str, float | None]
    duration: float
    phases: float
    logged: list[EngineRecord]


@pytest.fixture(scope="module")
def play(release: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Play:
    install_vllm(release)
    place = tmp_path_factory.mktemp("otlp")
    log = folder / "vllm-with-traces.log"
    app_log = place / "app.jsonl"
    port = free_port()  # each of the two has to be told where the other one is
    settings = (
        "--vllm-url",
        f"http://127.0.0.1:{port}",
        "--request-log",
        str(app_log),
        "--join-window",
        "5s",
    )
    with sidecar(folder / "sidecar-of-traces.log", *settings, "--scrape-interval", "1s") as exporter:
        server = VllmServer(
            release,
            log=log,
            port=port,
            options=[f"--otlp-traces-endpoint={exporter.admin}/v1/traces", "--enable-log-requests"],
        )
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
            environment.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
            environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "500")  # milliseconds between two batches
            try:
                server.start()
                sent = App(server.url, app_log, uses=USES).send(REQUESTS, at_once=AT_ONCE, name="traced")
                becomes(float(REQUESTS), lambda: exporter.value(SPANS % "record"), within=30)
                becomes(float(REQUESTS), lambda: exporter.value(JOINED % "both"), within=30)
            finally:
                server.stop()
        spans = {result: exporter.value(SPANS % result) for result in ("record", "unparsed", "other")}
        joined = {parts: exporter.value(JOINED % parts) for parts in ("both", "edge", "engine")}
        page = exporter.page()
    decode = VllmLog(clock=SystemClock())
    logged = [record for line in log.read_bytes().splitlines() for record in decode(line)]
    return Play(
        sent,
        spans,
        joined,
        _sum(page, "vllm_observe_request_duration_seconds_sum"),
        _sum(page, "vllm_observe_request_phase_seconds_sum"),
        logged,
    )


def _sum(page: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + "{"))


def test_every_request_that_vllm_finished_is_one_span_and_one_record(play):
    assert (play.spans["record"], play.spans["unparsed"]) == (REQUESTS, 0)


def test_every_request_of_the_app_meets_its_span(play):
    assert play.joined == {"both": REQUESTS, "edge": 0, "engine": 0}


def test_the_phases_add_up_to_what_the_users_felt(play):
    assert play.phases == pytest.approx(play.duration, rel=0.05)


def test_vllms_own_log_tells_of_every_arrival_once(play):
    arrivals = Counter(record.request_id for record in play.logged)
    assert arrivals == {f"chatcmpl-{record['request_id']}": 1 for record in play.sent}
    assert {record.max_tokens for record in play.logged} == {use.max_tokens for use in USES}
