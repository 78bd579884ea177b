"""Prometheus and Alertmanager beside the demo, where they are installed, with the rendered rules.

An alert holds for minutes before it fires, and looks back for hours; a story lasts for two minutes. So
every span of time in its rules is divided by the story's number, which the demo tells. Nobody is sent a
message: the receivers keep their names and lose their addresses.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import requests
import yaml

from vllm_observe.alerts.alertmanager import Receivers
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.render import alert_files
from vllm_observe.demo.child import Child, Ports
from vllm_observe.durations import parse_duration

__all__ = ["Alerting", "Firing", "Programs", "pressed", "programs"]

_EVERY = "1s"
_TIMEOUT_S = 1.0
_PROMETHEUS_PORT, _ALERTMANAGER_PORT = 9090, 9093
#: A span in PromQL: a range in brackets, or how far back an offset goes.
_SPAN = re.compile(r"(?<=[\[:])\d+[smhd](?=[\]:])|(?<=offset )\d+[smhd]")


class Programs(NamedTuple):
    """Where the programs are; ``None`` where they are not installed."""

    prometheus: str | None
    alertmanager: str | None

    @property
    def missing(self) -> str | None:
        """What would add alerts to the demo, in one line; ``None`` where nothing is missing."""
        names = [
            name for name, path in zip(("prometheus", "alertmanager"), self, strict=True) if path is None
        ]
        return f"with {' and '.join(names)} on the PATH, alerts fire here" if names else None


def programs() -> Programs:
    """Look for the programs on the PATH; Debian calls the second one by another name."""
    alertmanager = shutil.which("alertmanager") or shutil.which("prometheus-alertmanager")
    return Programs(shutil.which("prometheus"), alertmanager)


class Firing(NamedTuple):
    """An alert that fires: its name, how bad it is, its summary, and whether a worse one mutes it."""

    name: str
    severity: str
    summary: str
    muted: bool = False


class Alerting(AbstractContextManager["Alerting"]):
    """A Prometheus that scrapes the sidecar and judges it by the rules, with its Alertmanager.

    Both run until the end of the block.

    Args:
        found: the programs; both are there.
        sidecar: the address of the sidecar's metrics.
        admin: that of its admin listener.
        pressed_by: what every span of time in the rules is divided by.
        folder: takes the configuration and the data.
        ports: gives their addresses.

    Attributes:
        prometheus, alertmanager: the addresses of their pages.
    """

    def __init__(
        self,
        found: Programs,
        *,
        sidecar: str,
        admin: str,
        pressed_by: int,
        folder: Path,
        ports: Ports,
    ) -> None:
        self._found = found
        self._folder = folder
        self._pressed_by = pressed_by
        self._children: list[Child] = []
        self._stack = ExitStack()
        self._said: tuple[Firing, ...] = ()
        prometheus, alertmanager = ports.take(_PROMETHEUS_PORT), ports.take(_ALERTMANAGER_PORT)
        self._listen = prometheus, alertmanager
        self.prometheus, self.alertmanager = f"http://{prometheus}", f"http://{alertmanager}"
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy stands between us and our own child
        self._configure(sidecar, admin)

    def _configure(self, sidecar: str, admin: str) -> None:
        options = RuleOptions(gpu=False, admin_url=f"http://{admin}")
        for name, text in alert_files(options, Receivers(webhook_url="http://nobody.invalid")).items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._for_the_demo(name, text), encoding="utf-8")
        configuration = {
            "global": {"scrape_interval": _EVERY, "scrape_timeout": _EVERY, "evaluation_interval": _EVERY},
            "rule_files": ["rules/*.yaml"],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [self._listen[1]]}]}]},
            "scrape_configs": [{"job_name": "vllm", "static_configs": [{"targets": [sidecar]}]}],
        }
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(configuration), encoding="utf-8")

    def _for_the_demo(self, name: str, text: str) -> str:
        if name.startswith("rules/"):
            return pressed(text, by=self._pressed_by)
        return _without_addresses(text) if name == "alertmanager.yml" else text

    def start(self) -> None:
        """Start both."""
        prometheus, alertmanager = self._listen
        commands = {
            "alertmanager": (
                "--config.file=alertmanager.yml",
                "--storage.path=alertmanager",
                f"--web.listen-address={alertmanager}",
                "--cluster.listen-address=",
            ),
            "prometheus": (
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=prometheus",
                f"--web.listen-address={prometheus}",
            ),
        }
        for name, flags in commands.items():
            # Inside the folder, whose own name Prometheus would take for a part of a pattern.
            child = Child(name, (getattr(self._found, name), *flags), self._folder, inside=True)
            self._children.append(self._stack.enter_context(child))

    def check(self) -> None:
        """Make sure that both run.

        Raises:
            ChildEndedError: one does not.
        """
        for child in self._children:
            child.check()

    def __exit__(self, *_: object) -> None:
        """End both."""
        self._stack.close()

    def firing(self) -> tuple[Firing, ...]:
        """Ask Alertmanager what fires; what it said last where it does not answer, nothing before it is up."""
        try:
            answer = self._session.get(f"{self.alertmanager}/api/v2/alerts", timeout=_TIMEOUT_S)
            alerts: list[Any] = answer.json()
            found = {_firing(alert) for alert in alerts}
        except (requests.RequestException, ValueError, KeyError, TypeError, AttributeError):
            return self._said
        # critical, info, warning
        self._said = tuple(sorted(found, key=lambda one: (one.muted, one.severity, one.name)))
        return self._said


def _firing(alert: Mapping[str, Mapping[str, Any]]) -> Firing:
    labels, annotations = alert["labels"], alert["annotations"]
    summary, muted = annotations.get("summary", ""), bool(alert["status"]["inhibitedBy"])
    return Firing(labels["alertname"], labels["severity"], summary, muted)


def pressed(rules: str, *, by: int) -> str:
    """Return a rules file in which every span of time is divided by a number."""

    def less(span: str) -> str:
        return f"{round(parse_duration(span) * 1000 / by)}ms"

    document = yaml.safe_load(rules)
    for rule in (rule for group in document["groups"] for rule in group["rules"]):
        rule["expr"] = _SPAN.sub(lambda found: less(found[0]), rule["expr"])
        for key in {"for", "keep_firing_for"} & rule.keys():
            rule[key] = less(rule[key])
    return yaml.safe_dump(document, sort_keys=False)


def _without_addresses(configuration: str) -> str:
    document = yaml.safe_load(configuration)
    document["receivers"] = [{"name": receiver["name"]} for receiver in document["receivers"]]
    return yaml.safe_dump(document, sort_keys=False)
