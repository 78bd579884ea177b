"""The sidecar as a process, through its real command line."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import requests

from support.waiting import eventually

PROGRAM = Path(sys.executable).with_name("vllm-observe")


class Sidecar:
    """One running exporter; its ports are free ones, told by its log."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        command = [
            PROGRAM,
            "exporter",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            *arguments,
        ]
        with log.open("w") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)
        try:
            started = eventually(lambda: self.event("started"), within=60, what="the sidecar to start")
        except BaseException:
            self.process.kill()
            raise
        self.metrics, self.admin = started["metrics"], started["admin"]

    def events(self) -> list[dict]:
        """What the sidecar has logged so far, line by line."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def event(self, name: str) -> dict | None:
        """The first event of a name, if it came yet."""
        assert self.process.poll() is None, self.log.read_text()
        return next((event for event in self.events() if event["event"] == name), None)

    def get(self, path: str, **headers: str) -> requests.Response:
        """Ask the listener for Prometheus."""
        return requests.get(self.metrics + path, headers=headers, timeout=5)

    def page(self, accept: str = "text/plain;version=0.0.4") -> str:
        """The page that Prometheus would get."""
        return self.get("/metrics", Accept=accept).text

    def value(self, series: str) -> float | None:
        """The value of one series of the page, spelled as on the page."""
        found = re.search(rf"^{re.escape(series)} (\S+)$", self.page(), re.MULTILINE)
        return float(found[1]) if found else None


@contextlib.contextmanager
def sidecar(log: Path, *arguments: str) -> Iterator[Sidecar]:
    """Run an exporter for the time of the block."""
    running = Sidecar(log, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
