"""The rules against everything that the simulator knows to go wrong, and against its healthy days.

Each scenario passes through a real sidecar into the rules as they are rendered. Every alert that an incident
must lead to fires within a quarter of an hour of its start, nothing critical fires before it, and nothing at
all on a healthy day but what its scenario allows. A table says what was heard when.

Run ``pytest tests/bench/test_bench_alerts.py``: some ten minutes, most of them for playing the scenarios.
"""

from __future__ import annotations

import sys

import pytest

from support.alarms import Heard, heard
from support.rules import rendered
from vllm_observe.sim.scenarios.registry import SCENARIOS

WITHIN_S = 900.0


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    return rendered("sidecar", tmp_path_factory.mktemp("rules"))


@pytest.fixture(scope="module")
def table(request):
    """What each scenario led to, written when all are done."""
    found: dict[str, list[Heard]] = {}
    yield found
    lines = [line for name, alarms in found.items() for line in _rows(name, alarms)]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        sys.stdout.write("\n".join(["", *lines, ""]))


def _rows(name, alarms):
    scenario = SCENARIOS[name]
    expected = {alert for incident in scenario.incidents for alert in incident.expected.alerts}
    began = min((incident.start for incident in scenario.incidents), default=0.0)
    yield f"{name}: {scenario.summary}"
    for one in alarms:
        mark = "*" if one.alert in expected else " "
        yield f"  {mark} {(one.at - began) / 60:6.1f} min  {one.severity:8}  {one.alert}"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_heard(name, rules, promtool, tmp_path, table):
    scenario = SCENARIOS[name]
    alarms = table[name] = heard(scenario, rules, promtool, tmp_path)

    if scenario.healthy:
        assert not [one for one in alarms if one.alert not in scenario.allowed]
        return
    (incident,) = scenario.incidents
    assert not [one for one in alarms if one.severity == "critical" and one.at < incident.start]
    in_time = {one.alert for one in alarms if incident.start <= one.at <= incident.start + WITHIN_S}
    assert not set(incident.expected.alerts) - in_time
