from __future__ import annotations

import subprocess

import yaml

from http_double import http_double, whole
from vllm_observe.alerts.alertmanager import Receivers
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.render import alert_files
from vllm_observe.demo.alerting import Alerting, Firing, Programs, pressed, programs
from vllm_observe.demo.child import Ports

RULES = """
groups:
  - name: g
    rules:
      - record: job:requests:rate5m
        expr: sum(rate(requests_total{path=~"/v[1]/.*[5]m"}[5m]))
      - alert: A
        expr: max_over_time(rate(x[10m])[1h:30s]) > 5 unless x offset 10m > 5
        for: 5m
        keep_firing_for: 10s
      - alert: B
        expr: x > 0
"""


def test_every_span_is_divided_and_nothing_else():
    one, two, three = yaml.safe_load(pressed(RULES, by=20))["groups"][0]["rules"]
    assert one == {
        "record": "job:requests:rate5m",
        "expr": 'sum(rate(requests_total{path=~"/v[1]/.*[5]m"}[15000ms]))',
    }
    assert two == {
        "alert": "A",
        "expr": "max_over_time(rate(x[30000ms])[180000ms:1500ms]) > 5 unless x offset 30000ms > 5",
        "for": "15000ms",
        "keep_firing_for": "500ms",
    }
    assert three == {"alert": "B", "expr": "x > 0"}


def test_prometheus_takes_the_pressed_rules(promtool, tmp_path):
    files = alert_files(RuleOptions(gpu=False), Receivers(webhook_url="http://nobody.invalid"))
    rules = {name: text for name, text in files.items() if name.startswith("rules/")}
    assert rules
    for name, text in rules.items():
        path = tmp_path / name.removeprefix("rules/")
        path.write_text(pressed(text, by=20))
        assert "[5m]" not in path.read_text()
        subprocess.run([promtool, "check", "rules", path], check=True, capture_output=True)


def test_alertmanager_takes_the_configuration_and_no_message_leaves(amtool, tmp_path):
    with Ports() as ports:
        alerting_at(tmp_path, ports)
    subprocess.run([amtool, "check-config", tmp_path / "alertmanager.yml"], check=True, capture_output=True)
    receivers = yaml.safe_load((tmp_path / "alertmanager.yml").read_text())["receivers"]
    assert {name for receiver in receivers for name in receiver} == {"name"}


def alerting_at(folder, ports) -> Alerting:
    return Alerting(
        Programs("prometheus", "alertmanager"),
        sidecar="127.0.0.1:9809",
        admin="127.0.0.1:9810",
        pressed_by=20,
        folder=folder,
        ports=ports,
    )


def test_alertmanager_is_asked_for_what_fires_and_the_worst_comes_first(tmp_path):
    alert = (
        '{"labels": {"alertname": "%s", "severity": "%s"}, "annotations": {"summary": "s"},'
        ' "status": {"state": "active", "inhibitedBy": [%s], "silencedBy": []}}'
    )
    alerts = [("M", "critical", '"1f"'), ("W", "warning", ""), ("C", "critical", ""), ("W", "warning", "")]
    answer = f"[{', '.join(alert % one for one in alerts)}]"
    firing = (
        Firing("C", "critical", "s"),
        Firing("W", "warning", "s"),
        Firing("M", "critical", "s", muted=True),
    )
    with Ports() as ports, http_double() as server:
        alerting = alerting_at(tmp_path, ports)
        alerting.alertmanager = server.url
        for body in (b"oops", b"{}", b'[{"labels": {}}]', b"[1]"):
            server.answers["/api/v2/alerts"] = whole(body)
            assert alerting.firing() == ()
        server.answers["/api/v2/alerts"] = whole(answer.encode())
        assert alerting.firing() == firing
        server.answers["/api/v2/alerts"] = whole(b"oops")
        assert alerting.firing() == firing, "that it does not answer is no end of an alert"


def test_before_alertmanager_is_up_nothing_fires(tmp_path):
    with Ports() as ports:
        assert alerting_at(tmp_path, ports).firing() == ()


def test_it_says_what_would_add_alerts(monkeypatch):
    assert Programs("a", "b").missing is None
    assert Programs("a", None).missing == "with alertmanager on the PATH, alerts fire here"
    monkeypatch.setenv("PATH", "")
    assert programs().missing == "with prometheus and alertmanager on the PATH, alerts fire here"
