"""A real Prometheus and the part of its HTTP API that the tests ask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

from support.programs import free_port, running


@dataclass(frozen=True)
class Point:
    """One series of an instant query's answer."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Course:
    """One series of a range query's answer."""

    labels: Mapping[str, str]
    values: list[float]


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that answers at ``url``."""

    url: str
    session: requests.Session = field(default_factory=requests.Session)

    def query(self, expression: str, *, at: float | None = None) -> list[Point]:
        """What an expression gives now or ``at`` a time; an empty list where it selects nothing."""
        parameters = {"query": expression} if at is None else {"query": expression, "time": str(at)}
        answer = self._get("query", parameters)
        assert answer["resultType"] == "vector", f"{expression} is no instant vector"
        return [Point(found["metric"], float(found["value"][1])) for found in answer["result"]]

    def value(self, expression: str, *, at: float | None = None) -> float | None:
        """The value of an expression of at most one series; ``None`` where it selects nothing."""
        points = self.query(expression, at=at)
        assert len(points) <= 1, f"{expression} gives {len(points)} series"
        return points[0].value if points else None

    def over(self, expression: str, *, start: float, end: float, step: float) -> list[Course]:
        """Each series of an expression between two times, so many seconds apart."""
        parameters = {"query": expression, "start": str(start), "end": str(end), "step": str(step)}
        return [
            Course(series["metric"], [float(value) for _, value in series["values"]])
            for series in self._get("query_range", parameters)["result"]
        ]

    def exemplars(self, expression: str, *, start: float, end: float) -> list[dict[str, str]]:
        """The labels of the exemplars that the series of an expression got between two times."""
        parameters = {"query": expression, "start": str(start), "end": str(end)}
        return [
            exemplar["labels"]
            for series in self._get("query_exemplars", parameters)
            for exemplar in series["exemplars"]
        ]

    def _get(self, endpoint: str, parameters: Mapping[str, str]) -> Any:
        answer = self.session.get(f"{self.url}/api/v1/{endpoint}", params=parameters, timeout=10).json()
        assert answer["status"] == "success", f"Prometheus refused {parameters}: {answer.get('error')}"
        return answer["data"]


@contextlib.contextmanager
def prometheus_for(
    binary: Path,
    targets: Mapping[str, str],
    folder: Path,
    *,
    rules: Sequence[Path] = (),
    alertmanager: str | None = None,
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes each job's ``host:port`` every second and keeps exemplars.

    Args:
        binary: the program.
        targets: ``host:port`` by job name; a job scrapes ``/metrics``.
        folder: a folder for its configuration, its data and its log.
        rules: files of rules, evaluated every second.
        alertmanager: the ``host:port`` to tell of alerts that fire.
    """
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(file) for file in rules],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}] if alertmanager else []
        },
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [target]}]} for job, target in targets.items()
        ],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    with running(command, ready=f"{url}/-/ready", log=folder / "prometheus.log"):
        server = Prometheus(url)
        with server.session:
            yield server
