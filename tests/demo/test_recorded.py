from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

import vllm_observe.demo
from vllm_observe.clock import ManualClock
from vllm_observe.demo.recorded import RecordedServer, Recording

CAPTURES = Path(__file__).parents[1] / "data/captures/vllm-0.32.0"
STARTED_AT = 1_800_000_000.0


def values(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of a page, as Prometheus's reference parser reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def capture(name: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return values((CAPTURES / name).read_text(encoding="utf-8"))


def without_times(page: dict) -> dict:
    return {key: page[key] for key in page if not key[0].endswith(("_created", "start_time_seconds"))}


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording(started_at=STARTED_AT)


@pytest.mark.parametrize("name", ["saturated.prom", "saturated-1s-later.prom"])
def test_the_recording_is_what_the_real_vllm_printed(name):
    packaged = Path(vllm_observe.demo.__file__).with_name(name)
    assert packaged.read_bytes() == (CAPTURES / name).read_bytes()


@pytest.mark.parametrize(("load_s", "name"), [(5.2, "saturated.prom"), (6.2, "saturated-1s-later.prom")])
def test_both_recorded_pages_come_by_as_they_were(load_s, name, recording):
    page = values(recording.page(load_s).decode())
    recorded = capture(name)
    gauges = {"vllm:kv_cache_usage_perc", "process_resident_memory_bytes"}  # these change with the second
    told = {key: value for key, value in without_times(page).items() if key[0] not in gauges}
    assert told == pytest.approx({key: recorded[key] for key in told}, abs=1)
    assert page.keys() == recorded.keys()


def test_before_the_load_it_is_as_a_vllm_that_nobody_has_asked(recording):
    page, idle = values(recording.page(-math.inf).decode()), capture("idle.prom")
    told = {key: value for key, value in without_times(page).items() if key[0].startswith("vllm:")}
    both = told.keys() & idle.keys()
    assert len(both) > 300
    assert {key: told[key] for key in both} == {key: idle[key] for key in both}


def test_under_load_eight_run_and_sixteen_wait(recording):
    for load_s in (0.0, 1.5, 14.0, 100.0):
        page = values(recording.page(load_s).decode())
        labels = (("engine", "0"), ("model_name", "tiny"))
        assert page["vllm:num_requests_running", labels] == 8
        assert page["vllm:num_requests_waiting", labels] == 16


def test_no_counter_and_no_bucket_ever_falls(recording):
    before: dict = {}
    for tenth in (-600, -1, 0, 1, 4, 27, 30, 51, 52, 53, 61, 62, 65, 140, 339):
        counted = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(recording.page(tenth / 10).decode())
            if family.type in ("counter", "histogram", "summary")
            for sample in family.samples
        }
        assert [key for key in before if counted[key] < before[key]] == []
        before = counted
    assert before


def test_every_histogram_is_one_at_any_time(recording):
    for load_s in (0.0, 2.3, 5.2, 5.25, 27.3):
        for family in text_string_to_metric_families(recording.page(load_s).decode()):
            if family.type != "histogram":
                continue
            series: dict = {}
            for sample in family.samples:
                labels = frozenset((key, value) for key, value in sample.labels.items() if key != "le")
                series.setdefault((sample.name.removeprefix(family.name), labels), []).append(sample.value)
            for (part, labels), buckets in series.items():
                if part == "_bucket":
                    assert buckets == sorted(buckets)
                    assert [buckets[-1]] == series["_count", labels]


def test_what_is_counted_in_whole_things_stays_whole(recording):
    page = values(recording.page(17.7).decode())
    finished = [value for key, value in page.items() if key[0] == "vllm:request_success_total"]
    assert sum(finished) > 100
    assert all(value.is_integer() for value in finished)


def test_it_says_that_it_started_when_it_is_played(recording):
    page = values(recording.page(1).decode())
    assert page["process_start_time_seconds", ()] == pytest.approx(STARTED_AT, abs=0.001)
    created = [value for key, value in page.items() if key[0].endswith("_created")]
    assert created
    assert all(STARTED_AT <= value < STARTED_AT + 600 for value in created)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock):
    with RecordedServer(clock=clock) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_its_load_begins_when_it_is_told(server, clock):
    def running() -> float:
        page = values(requests.get(f"{server.url}/metrics", timeout=5).text)
        return page["vllm:num_requests_running", (("engine", "0"), ("model_name", "tiny"))]

    clock.advance(600)
    assert running() == 0
    server.load_at = clock.monotonic() + 1
    assert running() == 0
    clock.advance(1)
    assert running() == 8


def test_it_answers_as_a_vllm_does(server):
    metrics = requests.get(f"{server.url}/metrics", timeout=5)
    assert metrics.headers["Content-Type"].startswith("text/plain; version=1.0.0")
    assert values(metrics.text).keys() == capture("saturated.prom").keys()
    assert requests.get(f"{server.url}/version", timeout=5).json() == {"version": "0.32.0"}
    assert requests.get(f"{server.url}/v1/models", timeout=5).json()["data"][0]["id"] == "tiny"
    health = requests.get(f"{server.url}/health", timeout=5)
    assert (health.status_code, health.content) == (200, b"")
    assert requests.get(f"{server.url}/server_info?config_format=json", timeout=5).status_code == 404
