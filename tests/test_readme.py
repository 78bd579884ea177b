"""What the README and the list of settings promise is there: settings, flags, metrics, commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from vllm_observe.cli import app
from vllm_observe.config import WITHOUT_FLAG, ListenerSecurity, RequestLog, Settings, load_settings
from vllm_observe.signals import OWN

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
COMMANDS = get_command(app).commands


@pytest.mark.parametrize(
    "name", [*Settings.model_fields, *ListenerSecurity.model_fields, *RequestLog.model_fields]
)
def test_every_setting_is_told(name):
    assert f"`{name}`" in SETTINGS or f"{name}:" in SETTINGS


def test_every_flag_of_the_exporter_is_a_setting():
    flags = {parameter.name for parameter in COMMANDS["exporter"].params} - {"config", "request_log", "help"}
    assert flags | WITHOUT_FLAG | {"request_logs"} == set(Settings.model_fields)


def test_every_metric_that_is_named_exists():
    named = set(re.findall(r"\bvllm_observe_\w+", README))
    assert named <= {metric.name for metric in OWN}
    assert named


def test_every_command_that_is_shown_exists():
    blocks = "".join(re.findall(r"```(?:sh|text)\n(.*?)```", README, re.DOTALL))
    shown = set(re.findall(r"^(?:\$ )?vllm-observe ([\w-]+)", blocks, re.MULTILINE))
    assert shown <= set(COMMANDS)
    assert shown


def test_the_yaml_that_is_shown_is_a_configuration(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", SETTINGS, re.DOTALL)
    config = tmp_path / "sidecar.yaml"
    config.write_text(block)
    (log,) = load_settings(config=config).request_logs
    assert log.fields["duration_s"].scale == 0.001


def test_every_link_to_a_file_leads_to_one():
    for link in re.findall(r"\]\((?!https?://)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
