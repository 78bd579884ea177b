"""A real Alertmanager, and a receiver on loopback for all that it sends."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import requests
import yaml

from support.programs import free_port, running
from support.rules import write

#: Alertmanager waits as long as it is told to; a test has no patience.
HURRY = {"group_wait": "100ms", "group_interval": "1s", "repeat_interval": "1h"}

#: What is said of alerts: the same of all, or by their labels.
Annotations: TypeAlias = Mapping[str, str] | Callable[[Mapping[str, str]], Mapping[str, str]]
NOTHING_SAID: Annotations = {"summary": "s", "description": "d"}


class Message(NamedTuple):
    """What Alertmanager sent: where to, and the JSON document."""

    path: str
    body: dict[str, Any]


class Inbox(ThreadingHTTPServer):
    """Takes every message."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.messages: list[Message] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def of(self, receiver: str, status: str = "firing") -> list[str]:
        """The names of the alerts that a webhook was told of, in the order of their messages."""
        return [
            alert["labels"]["alertname"]
            for message in list(self.messages)
            if message.path == f"/{receiver}"
            for alert in message.body["alerts"]
            if alert["status"] == status
        ]


class _Taker(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.messages.append(Message(self.path, body))
        answer = b'{"ok": true, "status": "success"}'
        self.send_response(202 if "pagerduty" in self.path else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Stay silent."""


@contextlib.contextmanager
def inbox() -> Iterator[Inbox]:
    """Take messages while the block runs."""
    with Inbox() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Alertmanager:
    """An Alertmanager that answers at ``url``."""

    url: str

    def fire(self, *alerts: Mapping[str, str], annotations: Annotations = NOTHING_SAID) -> None:
        """Tell it of alerts that fire from now on, by their labels."""
        self._post(alerts, annotations, ended=False)

    def end(self, *alerts: Mapping[str, str], annotations: Annotations = NOTHING_SAID) -> None:
        """Tell it that alerts are over."""
        self._post(alerts, annotations, ended=True)

    def _post(self, alerts: Sequence[Mapping[str, str]], annotations: Annotations, *, ended: bool) -> None:
        now = datetime.now(timezone.utc)
        told = [
            {
                "labels": dict(labels),
                "annotations": dict(annotations(labels) if callable(annotations) else annotations),
                "startsAt": (now - timedelta(minutes=1)).isoformat(),
                **({"endsAt": now.isoformat()} if ended else {}),
            }
            for labels in alerts
        ]
        requests.post(f"{self.url}/api/v2/alerts", json=told, timeout=10).raise_for_status()

    def muted(self) -> set[str]:
        """The names of the alerts that an inhibition mutes now, with their instances."""
        return {
            f"{alert['labels']['alertname']} {alert['labels'].get('instance', '')}".strip()
            for alert in requests.get(f"{self.url}/api/v2/alerts", timeout=10).json()
            if alert["status"]["inhibitedBy"]
        }


@contextlib.contextmanager
def alertmanager_for(
    binary: Path, files: Mapping[str, str], folder: Path, *, global_: Mapping[str, Any] | None = None
) -> Iterator[Alertmanager]:
    """An Alertmanager with a rendered configuration, in a hurry.

    Args:
        binary: the program.
        files: what was rendered, ``alertmanager.yml`` among it.
        folder: for all of it.
        global_: what the configuration has to say besides, such as where PagerDuty is.
    """
    configuration = yaml.safe_load(files["alertmanager.yml"])
    for route in (configuration["route"], *configuration["route"]["routes"]):
        route.update({key: value for key, value in HURRY.items() if key in route})
    configuration["global"] = {"resolve_timeout": "1m", **(global_ or {})}
    write(folder, {**files, "alertmanager.yml": yaml.safe_dump(configuration)})
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    with running(command, ready=f"{url}/-/ready", log=folder / "alertmanager.log"):
        yield Alertmanager(url)
