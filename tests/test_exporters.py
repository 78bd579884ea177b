"""What operators take away from exporters/ is valid for the programs that read it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vllm_observe.config import load_settings

EXPORTERS = Path(__file__).parents[1] / "exporters"


def test_the_sidecar_takes_its_settings():
    settings = load_settings(config=EXPORTERS / "sidecar.yaml")
    assert settings.checkpoint_file == Path("/var/lib/vllm-observe/positions.json")


def test_prometheus_takes_its_configuration(promtool):
    checked = subprocess.run(
        [promtool, "check", "config", EXPORTERS / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_every_file_is_told_of():
    readme = (EXPORTERS / "README.md").read_text()
    assert all(f"`{file.name}`" in readme for file in EXPORTERS.iterdir() if file.name != "README.md")
