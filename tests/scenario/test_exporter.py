"""The exporter as a whole process: real command line, real captures over HTTP, real files, real signals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from http_double import http_double, silence, whole
from support.sidecar import PROGRAM, sidecar
from support.waiting import becomes, eventually

DATA = Path(__file__).parents[1] / "data"
TEXT = "text/plain; version=1.0.0; charset=utf-8"
#: What differs from run to run, or from one Python to the next.
VOLATILE = re.compile(
    r"^(vllm_observe_(?:scrape_duration_seconds|log_lag_seconds)) .*"
    r'|(?<=python_version=")[^"]*'
    r"|(?<=} )[\d.]+ [\d.]+$",  # an exemplar's value and time
    re.MULTILINE,
)


@pytest.fixture
def vllm():
    with http_double() as server:
        yield server


def serve(vllm, capture: str) -> None:
    body = (DATA / "captures" / capture).read_bytes()
    vllm.answers["/metrics"] = whole(body, content_type=TEXT)


@pytest.mark.parametrize(
    "capture",
    [
        "vllm-0.9.2-v0/saturated.prom",
        "vllm-0.9.2-v1/loaded.prom",
        "vllm-0.16.0-engine-dead/metrics.prom",
        "vllm-0.32.0/saturated.prom",
        "vllm-0.32.0/data-parallel-2.prom",
        "vllm-0.32.0/api-server-count-2.prom",
    ],
)
def test_a_captured_vllm_gives_the_page_that_was_agreed_on(vllm, tmp_path, golden, capture):
    serve(vllm, capture)
    log = tmp_path / "app.jsonl"
    log.write_text(
        '{"ts": 1795982230, "request_id": "a", "session_id": "s", "profile": "coder", "model": "tiny", '
        '"status": 200, "stream": true, "duration_s": 1.5, "ttft_s": 0.25, "prompt_tokens": 7, '
        '"completion_tokens": 11}\nno record\n'
    )
    arguments = ["--vllm-url", vllm.url, "--request-log", str(log), "--max-num-seqs", "8"]
    with sidecar(tmp_path / "sidecar.log", *arguments) as running:
        becomes(1.0, lambda: running.value('vllm_observe_join_closed_total{parts="edge"}'), within=10)
        eventually(lambda: running.get("/readyz").ok, within=10, what="a good scrape")
        openmetrics = running.page("application/openmetrics-text;version=1.0.0")
        text = running.page()
    assert openmetrics.endswith("# EOF\n")
    names = {sample.name for family in parse_openmetrics(openmetrics) for sample in family.samples}
    assert names == {sample.name for family in parse_text(text) for sample in family.samples}
    golden(f"exporter/{capture.replace('/', '-')}.om", VOLATILE.sub(r"\1 …", openmetrics))


def test_it_is_ready_from_the_first_good_scrape_on_and_says_until_then_why_not(vllm, tmp_path):
    with sidecar(tmp_path / "log", "--vllm-url", vllm.url, "--scrape-interval", "1s") as running:
        assert running.get("/healthz").ok
        eventually(lambda: "404" in running.get("/readyz").text, within=5, what="the reason")
        refused = running.get("/readyz")
        assert refused.status_code == 503
        assert "/metrics" in refused.text
        serve(vllm, "vllm-0.32.0/idle.prom")
        eventually(lambda: running.get("/readyz").ok, within=5, what="a good scrape")


def test_it_serves_three_paths_to_prometheus_and_the_state_to_people(vllm, tmp_path):
    serve(vllm, "vllm-0.32.0/saturated.prom")
    with sidecar(tmp_path / "log", "--vllm-url", vllm.url) as running:
        eventually(lambda: running.get("/readyz").ok, within=10, what="a good scrape")
        for path in ("/", "/metrics/", "/api/v1/state", "/docs", "/openapi.json"):
            assert running.get(path).status_code == 404
        state = requests.get(running.admin + "/api/v1/state", timeout=5).json()
        assert state["engines"][0]["running"] == 8
        assert requests.get(running.admin + "/metrics", timeout=5).status_code == 404


def test_the_last_lines_count_and_the_end_comes_within_five_seconds(vllm, tmp_path):
    vllm.answers["/metrics"] = silence  # a scrape is under way all the time
    log = tmp_path / "app.jsonl"
    log.write_text("")
    arguments = ["--vllm-url", vllm.url, "--request-log", str(log), "--scrape-timeout", "30s"]
    with sidecar(tmp_path / "log", *arguments) as running:
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(10) == 0
        assert time.monotonic() - began < 5
        assert running.events()[-1]["event"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_either_signal_ends_it_well_and_what_was_written_is_read(vllm, tmp_path, number):
    serve(vllm, "vllm-0.32.0/idle.prom")
    log = tmp_path / "app.jsonl"
    arguments = ["--vllm-url", vllm.url, "--request-log", str(log)]
    with sidecar(tmp_path / "log", *arguments) as running:
        log.write_text("no record\n")
        running.process.send_signal(number)
        assert running.process.wait(10) == 0
        assert {"a line is no record", "stopped"} <= {event["event"] for event in running.events()}
        assert running.events()[-1]["drained"] is True


def test_the_configuration_is_read_again_on_sighup(vllm, tmp_path):
    serve(vllm, "vllm-0.32.0/saturated.prom")
    config = tmp_path / "sidecar.yaml"
    config.write_text(f"vllm_url: {vllm.url}\nscrape_interval: 1s\n")
    limit = 'vllm_observe_max_num_seqs{model_name="tiny",engine="0"}'
    with sidecar(tmp_path / "log", "--config", str(config)) as running:
        eventually(lambda: running.get("/readyz").ok, within=10, what="a good scrape")
        assert running.value(limit) is None
        config.write_text(
            f"vllm_url: {vllm.url}\nscrape_interval: 1s\nmax_num_seqs: 8\nlisten: 127.0.0.1:1\n"
        )
        running.process.send_signal(signal.SIGHUP)
        becomes(8.0, lambda: running.value(limit), within=5)
        config.write_text("max_num_sequences: 9\n")
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: running.event("configuration not re-read"), within=5, what="the complaint")
        assert running.value(limit) == 8
        assert running.value('vllm_observe_config_reloads_total{result="failed"}') == 1


def test_it_logs_one_json_event_a_line_and_no_secret(vllm, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cr3t-t0ken\n")
    vllm.answers["/metrics"] = whole(b"", status=401)
    url = vllm.url.replace("http://", "http://user:hunter2@")
    arguments = ["--vllm-url", url, "--scrape-token-file", str(token)]
    with sidecar(tmp_path / "log", *arguments) as running:
        event = eventually(lambda: running.event("scrape failed"), within=10, what="the failure")
        assert event["reason"] == "auth"
        page, ready = running.page(), running.get("/readyz").text
    assert vllm.asked[0].headers["authorization"] == "Bearer s3cr3t-t0ken"
    for text in (running.log.read_text(), page, ready):
        assert "s3cr3t" not in text
        assert "hunter2" not in text


def complaint(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of an exporter that cannot start."""
    ended = subprocess.run(
        [PROGRAM, "exporter", *arguments], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vllm-url", "ftp://x"], ["--vllm-url", "http"]),
        (["--vllm-url", "127.0.0.1:8000"], ["--vllm-url", "http"]),
        (["--scrape-interval", "0.1s"], ["--scrape-interval", "1"]),
        (["--max-num-seqs", "eight"], ["--max-num-seqs"]),
        (["--service-class", "chat"], ["--service-class", "interactive"]),
        (["--config", "/no/such/file.yaml"], ["--config", "/no/such/file.yaml"]),
        (["--listen", "nonsense"], ["--listen"]),
        (["--listen", "127.0.0.1:99999"], ["--listen"]),
        (["--admin-listen", "0.0.0.0:0"], ["--admin-listen", "token"]),
        (["--request-logs", "x"], ["--request-log"]),
        (["surplus"], ["surplus"]),
    ],
)
def test_wrong_use_gives_one_line_that_names_the_setting_and_exit_code_2(arguments, words):
    code, told = complaint(*arguments)
    assert code == 2
    assert told.count("\n") == 1
    for word in words:
        assert word in told


def test_an_address_in_use_is_named_with_the_mend():
    with http_double() as other:
        code, told = complaint("--listen", other.url.removeprefix("http://"))
    assert code == 2
    assert told.count("\n") == 1
    assert "--listen" in told


def test_a_field_map_makes_records_of_an_apps_own_log(vllm, tmp_path):
    serve(vllm, "vllm-0.32.0/idle.prom")
    log = DATA / "cases" / "09-id-suffix-join" / "app.jsonl"
    config = tmp_path / "sidecar.yaml"
    config.write_text(
        json.dumps(
            {
                "vllm_url": vllm.url,
                "request_logs": [
                    {
                        "path": str(log),
                        "fields": {
                            "request_id": "x_request_id",
                            "duration_s": {"from": "latency_ms", "scale": 0.001},
                            "ttft_s": {"from": "ttft_ms", "scale": 0.001},
                        },
                    }
                ],
            }
        )
    )
    with sidecar(tmp_path / "log", "--config", str(config)) as running:
        becomes(3.0, lambda: running.value('vllm_observe_join_closed_total{parts="edge"}'), within=10)
        eventually(lambda: running.get("/readyz").ok, within=10, what="a good scrape")
        page = running.page()
    ok = re.search(r'requests_total\{model_name="[^"]*",profile="",outcome="ok"\} 2.0', page)
    error = re.search(r'requests_total\{model_name="[^"]*",profile="",outcome="error"\} 1.0', page)
    assert ok
    assert error


def test_the_end_comes_in_time_though_a_long_log_is_unread_and_says_so(vllm, tmp_path):
    serve(vllm, "vllm-0.32.0/idle.prom")
    log = tmp_path / "app.jsonl"
    record = '{"ts": 1795982230, "request_id": "%d", "model": "tiny", "status": 200, "duration_s": 1.5}\n'
    with log.open("w") as file:
        file.writelines(record % number for number in range(300_000))
    with sidecar(tmp_path / "log", "--vllm-url", vllm.url, "--request-log", str(log)) as running:
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
        assert time.monotonic() - began < 5
        assert running.events()[-1]["drained"] is False


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--version >/dev/full", 1),
        ("exporter --help >/dev/full", 1),
        ("status --vllm-url http://127.0.0.1:1 >&-", 1),
        ("exporter --listen nonsense 2>&-", 2),
        ("exporter --listen nonsense >&- 2>&-", 2),
    ],
)
def test_without_a_place_to_write_to_it_ends_with_its_code_and_no_traceback(command, code):
    ended = subprocess.run(
        f"exec '{PROGRAM}' {command}", shell=True, capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
