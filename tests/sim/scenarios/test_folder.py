from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_fd_to_metric_families

from support.prometheus import prometheus_for
from vllm_observe.model import EdgeRecord, EngineRecord, EngineSample, Limits
from vllm_observe.records.format1 import decode
from vllm_observe.sim.scenarios.folder import write_scenario
from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.registry import SCENARIOS

EPOCH = 1_790_000_000.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two minutes of the crash loop, at five seconds a scrape."""
    found = tmp_path_factory.mktemp("crash") / "made"
    short = hurried(SCENARIOS["crash-loop"], before=30.0, during=70.0, after=20.0)
    write_scenario(short, found, scrape_every=5.0, epoch=EPOCH)
    return found


def lines(file):
    return file.read_bytes().splitlines()


def test_prometheus_takes_the_metrics_in_and_answers_from_them(folder, promtool, prometheus, tmp_path):
    made = subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", folder / "metrics.om", tmp_path / "data"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr

    with prometheus_for(prometheus, {}, tmp_path) as server:
        target = 'job="vllm",instance="vllm-0:8000"'
        assert server.value(f"min_over_time(up{{{target}}}[2m])", at=EPOCH + 120) == 0.0
        assert server.value(f"count_over_time(up{{{target}}}[2m])", at=EPOCH + 120) == 24
        assert server.value("sum(resets(vllm:generation_tokens_total[2m]))", at=EPOCH + 120) >= 3
        finished = server.value("sum(vllm:request_success_total)", at=EPOCH + 30)
        bucket = 'sum(vllm:e2e_request_latency_seconds_bucket{le="+Inf"})'
        assert finished == server.value(bucket, at=EPOCH + 30) > 10


def test_every_sample_line_is_openmetrics(folder):
    """By the format's own parser, one scrape at a time: a file in the order of time has no families."""
    text = (folder / "metrics.om").read_text()
    assert text.endswith("\n# EOF\n")
    first = [line for line in text.splitlines() if line.endswith(f" {EPOCH + 15:.3f}")]
    assert len(first) > 300
    for line in first:
        (family,) = text_fd_to_metric_families(iter([line + "\n", "# EOF\n"]))
        assert float(family.samples[0].timestamp) == EPOCH + 15
        assert family.samples[0].labels["instance"] == "vllm-0:8000"


def test_the_logs_tell_of_every_request_once_each(folder):
    app = [decode(line) for line in lines(folder / "app.jsonl")]
    plugin = [decode(line) for line in lines(folder / "vllm.jsonl")]
    labels = [json.loads(line) for line in lines(folder / "labels.jsonl")]

    edges = [record for record in plugin if isinstance(record, EdgeRecord)]
    assert len(app) == len(edges) == len(labels) > 100
    for record, truth in zip(app, labels, strict=True):
        assert record.request_id == truth["request_id"]
        assert record.ts == pytest.approx(truth["ended_at"])
    finished = [record for record in plugin if isinstance(record, EngineRecord)]
    assert len(finished) == sum(record.outcome.value == "ok" for record in app)


def test_a_new_process_writes_its_limits_before_its_samples(folder):
    plugin = [decode(line) for line in lines(folder / "vllm.jsonl")]
    told = [record for record in plugin if isinstance(record, Limits | EngineSample)]

    assert isinstance(told[0], Limits)
    assert told[0].max_num_seqs == 64
    assert sum(isinstance(record, Limits) for record in told) >= 4


def test_the_folder_says_what_happened_when(folder):
    about = json.loads((folder / "scenario.json").read_text())

    assert about["name"] == "crash-loop"
    (incident,) = about["incidents"]
    assert (incident["start"], incident["end"]) == (EPOCH + 30, EPOCH + 100)
    assert incident["alerts"] == ["VLLMEngineRestarting"]
    assert about["healthy"] is False


def test_a_folder_can_be_written_again(tmp_path):
    short = replace(SCENARIOS["steady"], seconds=20.0)
    write_scenario(short, tmp_path)
    first = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    write_scenario(short, tmp_path)

    assert first == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert sorted(first) == ["app.jsonl", "labels.jsonl", "metrics.om", "scenario.json", "vllm.jsonl"]
