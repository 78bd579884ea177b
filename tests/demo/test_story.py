from __future__ import annotations

import pytest

from vllm_observe.demo.story import DEFAULT, STORIES, Mark, Story, told
from vllm_observe.errors import ConfigError
from vllm_observe.sim.scenarios.incidents import NOTHING
from vllm_observe.sim.scenarios.virtual import Told, play_scenario


@pytest.mark.parametrize("name", STORIES)
def test_every_scenario_is_over_within_four_minutes_and_says_what_happens(name):
    story = Story(told(name))
    assert story.scenario.seconds <= 240
    assert all(mark.at < story.scenario.seconds for mark in story.marks)
    assert all(story.at(second) for second in range(240))
    assert story.scenario.load_s <= 60 or not story.scenario.starting


def test_the_trouble_begins_after_twelve_seconds_and_ends_forty_five_later():
    story = Story(told(DEFAULT))
    assert story.marks == [
        Mark(12.0, "batch job begins: A batch job takes every slot."),
        Mark(57.0, "batch job ends"),
    ]
    assert story.begins == 12.0
    assert story.at(2.0) == "batch job in 10 s; until then all is well"
    assert story.at(12.0) == "batch job since 0 s, for another 45 s"
    assert story.at(60.0) == "batch job is over since 3 s"


def test_on_a_healthy_day_nothing_is_announced():
    story = Story(told("steady"))
    assert story.marks == []
    assert story.at(30.0) == "nothing out of the ordinary: no alert may fire"
    full = Story(told("full-batch"))
    assert full.at(30.0) == "nothing out of the ordinary: only VLLMKVCacheNearFull may fire"


def test_between_two_incidents_the_next_one_is_announced():
    story = Story(told("blue-green"))
    first, second = story.scenario.incidents
    assert story.at(first.end) == f"{second.name} in {second.start - first.end:.0f} s; until then all is well"


def test_of_bursts_that_come_every_ten_minutes_one_is_told_as_long_as_it_is():
    (burst,) = told("short-bursts").incidents
    assert burst.end - burst.start == 30.0
    assert [source.sessions for source in burst.traffic] == [60]


@pytest.mark.parametrize("name", STORIES)
def test_rules_are_hurried_where_something_goes_wrong_and_on_no_healthy_day(name):
    story = Story(told(name))
    troubled = any(incident.expected != NOTHING for incident in story.scenario.incidents)
    assert story.pressed_by == (20 if troubled else 1)


def test_nobody_is_there_while_the_engine_sleeps():
    scenario = told("sleep-and-wake")
    (asleep,) = scenario.incidents
    ended = [one.ended for one in play_scenario(scenario, release=None) if isinstance(one, Told)]
    assert {one.at < asleep.start for one in ended} == {True, False}
    assert not [one for one in ended if one.at > asleep.start and one.arrival.at < asleep.end]


def test_a_model_that_is_loaded_for_ten_minutes_is_there_after_twenty_seconds():
    scenario = told("model-load")
    assert scenario.load_s == 20.0
    assert {source.since for source in scenario.workload} == {22.0}


def test_an_answer_of_four_thousand_tokens_can_end_within_its_story():
    (incident,) = told("runaway-outputs").incidents
    assert incident.end - incident.start > 4096 * 0.025


@pytest.mark.parametrize(
    ("name", "told_of"),
    [
        ("thunder", "there is no 'thunder'; --list"),
        ("hung", r"there is no 'hung' \(did you mean hang\?\); "),
        ("prefix-cache-lost", "prefix-cache-lost takes too long for a demo: "),
    ],
)
def test_a_name_that_there_is_not_is_wrong_use(name, told_of):
    with pytest.raises(ConfigError, match=f"--scenario: {told_of}"):
        told(name)
