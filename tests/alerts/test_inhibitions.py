"""What mutes what, in a real Alertmanager."""

from __future__ import annotations

import uuid

import pytest

from support.alertmanager import alertmanager_for
from support.waiting import becomes
from vllm_observe.alerts.alertmanager import Receivers, alertmanager_files


@pytest.fixture(scope="module")
def real(alertmanager, tmp_path_factory):
    files = alertmanager_files(Receivers(webhook_url="http://127.0.0.1:9"))
    with alertmanager_for(alertmanager, files, tmp_path_factory.mktemp("alertmanager")) as started:
        yield started


@pytest.fixture
def say(real):
    """Fire alerts of a job that no other test has, and give those of them that become muted."""
    job = uuid.uuid4().hex
    told = []

    def fire(*alerts):
        told.extend({"job": job, "service_class": "interactive", **alert} for alert in alerts)
        real.fire(*told)

    yield fire
    real.end(*told)


def alert(name, instance="a:9809", severity="warning", **labels):
    return {"alertname": name, "severity": severity, "instance": instance, **labels}


def engine(name, instance="a:9809", rank="0", severity="warning"):
    return alert(name, instance, severity, model_name="llama", engine=rank)


@pytest.mark.parametrize(
    ("alerts", "muted"),
    [
        pytest.param(
            [
                alert("VLLMTargetDown", severity="critical"),
                engine("VLLMKVCacheNearFull"),
                alert("VLLMObserveUnparsedLines"),
                engine("VLLMKVCacheNearFull", "b:9809"),
                {"alertname": "VLLMRequestErrorsHigh", "severity": "critical", "model_name": "llama"},
            ],
            {"VLLMKVCacheNearFull a:9809", "VLLMObserveUnparsedLines a:9809"},
            id="a server that is down mutes its others, and no other server's and no service's",
        ),
        pytest.param(
            [alert("VLLMObserveDown", severity="critical"), engine("VLLMQueueTimeHigh")],
            {"VLLMQueueTimeHigh a:9809"},
            id="a sidecar that is down mutes what it said last",
        ),
        pytest.param(
            [
                engine("VLLMSequenceSlotsExhausted", severity="critical"),
                engine("VLLMSequenceSlotsNearLimit"),
                engine("VLLMSequenceSlotsNearLimit", "b:9809"),
            ],
            {"VLLMSequenceSlotsNearLimit a:9809"},
            id="exhausted mutes near the limit",
        ),
        pytest.param(
            [
                engine("VLLMSequenceSlotsExhausted", severity="critical"),
                engine("VLLMSequenceSlotsNearLimit", rank="1"),
            ],
            set(),
            id="but not of another engine",
        ),
        pytest.param(
            [
                engine("VLLMEngineStalled", severity="critical"),
                engine("VLLMKVCacheNearFull"),
                engine("VLLMSequenceSlotsExhausted", severity="critical"),
                alert("VLLMObserveRequestLogSilent"),
            ],
            {"VLLMKVCacheNearFull a:9809", "VLLMSequenceSlotsExhausted a:9809"},
            id="a stalled engine mutes what its frozen gauges say",
        ),
        pytest.param(
            [engine("VLLMQueueTimeHigh", severity="critical"), engine("VLLMQueueTimeHigh")],
            {"VLLMQueueTimeHigh a:9809"},
            id="critical mutes the warning of the same name",
        ),
        pytest.param(
            [
                alert("VLLMAnswersWithoutTokens", severity="critical"),
                {"alertname": "VLLMRequestErrorsHigh", "severity": "critical", "model_name": "llama"},
            ],
            {"VLLMRequestErrorsHigh"},
            id="a dead engine is why requests fail",
        ),
        pytest.param(
            [
                alert("VLLMAnswersWithoutTokens", severity="critical"),
                engine("VLLMEngineStalled", severity="critical"),
                engine("VLLMEngineStalled", "b:9809", severity="critical"),
            ],
            {"VLLMEngineStalled a:9809"},
            id="a dead engine is no hung one, whatever its gauges froze at",
        ),
        pytest.param(
            [alert("VLLMTargetDown", severity="critical"), alert("NodeDown", severity="critical")],
            set(),
            id="others' alerts are theirs",
        ),
    ],
)
def test_muted(say, real, alerts, muted):
    say(*alerts)

    becomes(muted, real.muted, within=10)
