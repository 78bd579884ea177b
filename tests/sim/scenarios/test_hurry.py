from __future__ import annotations

import math

import pytest

from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.registry import SCENARIOS


def test_an_incident_keeps_its_story_in_less_time():
    """Seven restarts from 1800 to 2880 of 1800 to 3000: now from 20 to 74 of 20 to 80."""
    short = hurried(SCENARIOS["crash-loop"], before=20.0, during=60.0, after=30.0)
    (incident,) = short.incidents

    assert (incident.start, incident.end, short.seconds) == (20.0, 80.0, 110.0)
    assert [deed.at for deed in incident.deeds] == pytest.approx([20, 29, 38, 47, 56, 65, 74])
    assert short.load_s == 3.0


def test_traffic_comes_and_goes_with_its_incident_and_the_rest_stays():
    whole = SCENARIOS["slots-exhausted"]
    short = hurried(whole, before=20.0, during=60.0, after=30.0)
    (job,) = short.incidents[0].traffic

    assert (job.since, job.until) == (20.0, 80.0)
    assert short.workload == whole.workload


def test_who_stops_before_an_incident_still_does():
    short = hurried(SCENARIOS["sleep-and-wake"], before=15.0, during=20.0, after=10.0)

    assert {source.until for source in short.workload} == {9.0, math.inf}
    assert max(source.since for source in short.workload) == pytest.approx(35.0 + 10.0 * 60 / 360)


def test_a_scenario_without_incidents_is_cut():
    whole = SCENARIOS["model-load"]
    short = hurried(whole, before=600.0, during=60.0, after=60.0)

    assert (short.seconds, short.load_s, short.workload) == (720.0, 600.0, whole.workload)
