"""What operators take away from exporters/ is valid for the programs that read it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from vllm_observe.config import load_settings

EXPORTERS = Path(__file__).parents[1] / "exporters"


def test_the_sidecar_takes_its_settings():
    settings = load_settings(config=EXPORTERS / "sidecar.yaml")
    assert settings.store == Path("/var/lib/vllm-observe/requests.db")


def test_prometheus_takes_its_configuration(promtool):
    checked = subprocess.run(
        [promtool, "check", "config", EXPORTERS / "prometheus.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_nginx_takes_its_log_format(nginx, tmp_path):
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid;\nevents {{ }}\nhttp {{ include {EXPORTERS / 'nginx.conf'}; }}\n")
    checked = subprocess.run(
        [nginx, "-t", "-c", whole, "-e", tmp_path / "error.log"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_every_file_is_told_of():
    readme = (EXPORTERS / "README.md").read_text()
    assert all(f"`{file.name}`" in readme for file in EXPORTERS.iterdir() if file.name != "README.md")
