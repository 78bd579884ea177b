"""Proofs as the unit tests that promtool runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from vllm_observe.alerts.proofs.course import STEP, Course, Page
from vllm_observe.alerts.proofs.page import changed
from vllm_observe.alerts.proofs.proof import Check, Identity, Scene
from vllm_observe.alerts.rule import Group
from vllm_observe.alerts.yaml import document

__all__ = ["holds", "unit_tests"]

_BY = "alertname, severity, window, service_class"


def holds(groups: Iterable[Group]) -> dict[Identity, int]:
    """Return each rule's ``for`` in seconds."""
    return {
        Identity(
            rule.severity,
            rule.name,
            dict(rule.labels).get("window", ""),
            rule.service_class.value if rule.service_class else "interactive",
        ): rule.hold
        for group in groups
        for rule in group.alerts
    }


def unit_tests(scenes: Iterable[Scene], page: Page, rule_files: Sequence[str]) -> str:
    """Return a file for ``promtool test rules``.

    Args:
        scenes: what to test.
        page: what Prometheus sees where a scene says nothing else.
        rule_files: the rules' files, relative to the file's folder.
    """
    told = tuple(scenes)
    end = max(check.at for scene in told for check in scene.checks)

    @cache  # a series that several scenes share is written once: YAML refers to it
    def series(name: str, course: Course) -> Mapping[str, str]:
        return {"series": name, "values": course.values(end)}

    def test(scene: Scene) -> Mapping[str, Any]:
        return {
            "name": scene.says,
            "interval": f"{STEP}s",
            "input_series": [series(*item) for item in changed(page, scene.changes).items()],
            "promql_expr_test": [_check(check) for check in scene.checks],
        }

    return document(
        {
            "rule_files": [*rule_files],
            "evaluation_interval": f"{STEP}s",
            "tests": [test(scene) for scene in told],
        }
    )


def _check(check: Check) -> Mapping[str, Any]:
    only = ""
    if check.only is not None:
        only = "".join(f',{name}="{value}"' for name, value in _labels(check.only).items())
    return {
        "expr": f'group by ({_BY}) (ALERTS{{alertstate="firing"{only}}})',
        "eval_time": f"{check.at}s",
        "exp_samples": [{"labels": _braced(identity), "value": 1} for identity in sorted(check.firing)],
    }


def _labels(identity: Identity) -> dict[str, str]:
    told = {
        "alertname": identity.alert,
        "severity": identity.severity.value,
        "window": identity.window,
        "service_class": identity.service_class,
    }
    return {name: value for name, value in told.items() if value}


def _braced(identity: Identity) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in _labels(identity).items()) + "}"
