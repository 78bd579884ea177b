"""Who is told: the routing tree, as amtool reads it, for each severity and class."""

from __future__ import annotations

import pytest

from support.rules import run, write
from vllm_observe.alerts.alertmanager import Receivers, alertmanager_files


@pytest.fixture(scope="module")
def configuration(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alertmanager")
    write(folder, alertmanager_files(Receivers()))
    return folder / "alertmanager.yml"


@pytest.mark.parametrize(
    ("severity", "service_class", "receiver"),
    [
        ("critical", "interactive", "pager"),
        ("critical", "batch", "chat"),
        ("critical", "", "pager"),
        ("critical", "<error expanding template>", "pager"),
        ("warning", "interactive", "chat"),
        ("warning", "batch", "chat"),
        ("info", "interactive", "nobody"),
        ("info", "batch", "nobody"),
        ("unheard-of", "interactive", "chat"),
    ],
)
def test_a_message_goes_to(amtool, configuration, severity, service_class, receiver):
    labels = [f"severity={severity}", f"service_class={service_class}"]
    done = run(
        amtool,
        *("config", "routes", "test", f"--config.file={configuration}", f"--verify.receivers={receiver}"),
        *labels,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("receivers", [Receivers(), Receivers(webhook_url="http://127.0.0.1:9/hook?a=1")])
def test_amtool_finds_nothing_wrong(amtool, tmp_path, receivers):
    write(tmp_path, alertmanager_files(receivers))

    done = run(amtool, "check-config", tmp_path / "alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_secrets_stand_in_files_alone(configuration):
    text = configuration.read_text()

    assert "routing_key_file: /etc/alertmanager/secrets/pagerduty-key" in text
    assert "api_url_file: /etc/alertmanager/secrets/slack-url" in text
    assert "routing_key:" not in text
    assert "api_url:" not in text
