"""A real vLLM server that a test starts, stops and starts again on the same port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from support import cores
from support.cores import kept_to
from support.programs import Program, free_port

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "real_vllm.py"


def install_vllm(release: str) -> None:
    """Install a release in the user's cache, unless it is there."""
    subprocess.run([sys.executable, SCRIPT, "install", "--release", release], check=True)


class VllmServer:
    """A vLLM server with the tiny model, at one port for all its lives and on a core of its own.

    Args:
        release: the release, as ``scripts/real_vllm.py`` knows it.
        options: more options of ``vllm serve``.
        log: the file that takes the output of all its lives.
        port: where it listens, if that has to be known before; any free one otherwise.
    """

    def __init__(self, release: str, *, log: Path, options: Sequence[str] = (), port: int = 0) -> None:
        port = port or free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = log
        self._command = [sys.executable, SCRIPT, "serve", "--release", release, "--port", str(port), *options]
        self._program: Program | None = None

    def start(self, *, within: float = 300.0) -> None:
        """Start it and wait until it serves: 20 to 40 s for 0.32.0 on an idle core."""
        with kept_to(cores.VLLM):
            self._program = Program(self._command, log=self._log)
        self._program.wait_for(f"{self.url}/health", within=within)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def total(self, sample: str) -> float:
        """The sum of a metric's samples on vLLM's own page, as Prometheus's reference parser reads it."""
        page = requests.get(f"{self.url}/metrics", timeout=10).text
        found = [
            each.value
            for family in text_string_to_metric_families(page)
            for each in family.samples
            if each.name == sample
        ]
        assert found, f"vLLM shows no {sample}"
        return sum(found)
