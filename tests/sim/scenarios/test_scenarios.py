"""Each scenario reaches what it says, and nothing of it before its incident."""

from __future__ import annotations

import re
from statistics import median

import pytest

from support.staged import END, START, share, staged
from vllm_observe.model import BindingLimit, Cause
from vllm_observe.sim.requests import End
from vllm_observe.sim.scenarios.registry import SCENARIOS
from vllm_observe.sim.scenarios.scenario import Scenario

TROUBLES = [name for name, scenario in SCENARIOS.items() if not scenario.healthy]
HEALTHY = [name for name, scenario in SCENARIOS.items() if scenario.healthy]

#: What people do by themselves on the best of days.
NOISE = {Cause.CLIENT_DISCONNECTED, Cause.CLIENT_ERROR}
HOLDS = {
    BindingLimit.SLOTS: {"slots", "slots_and_kv"},
    BindingLimit.KV: {"kv", "slots_and_kv"},
    BindingLimit.TOKEN_BUDGET: {"token_budget"},
}


def parts(name):
    """Before the incident; during it, but for its first minute; after it."""
    stage = staged(name)
    return stage.part(0.0, START), stage.part(START + 60, END), stage.part(END)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_request_that_was_sent_ended_or_is_in_flight(name):
    stage = staged(name)
    ended = len(stage.part().ends)

    assert stage.sent == ended + stage.in_flight
    assert stage.in_flight < 0.1 * stage.sent + 150
    known = {(one.label.request_id, one.label.attempt) for one in stage.part().ends}
    assert len(known) == ended


@pytest.mark.parametrize("name", TROUBLES)
def test_all_is_well_before_an_incident(name):
    before, _, _ = parts(name)

    assert len(before.ends) > 200
    assert before.share(lambda sample: sample.waiting > 10) == 0.0
    assert before.gained("preemptions") == 0
    assert len(before.wrong) < 0.03 * len(before.ends)


@pytest.mark.parametrize("name", TROUBLES)
def test_what_goes_wrong_has_the_causes_that_it_must_have(name):
    _, during, _ = parts(name)
    (incident,) = SCENARIOS[name].incidents
    causes = incident.expected.causes

    wrong = [one.label.cause for one in during.wrong if one.label.cause not in NOISE - causes]
    if name in {"log-stops", "scrape-fails", "runaway-outputs"}:  # no request is worse off
        assert len(wrong) < 0.01 * len(during.ends)
        return
    assert len(wrong) > 100
    assert share(cause in causes for cause in wrong) > 0.85


@pytest.mark.parametrize("name", [name for name in TROUBLES if SCENARIOS[name].incidents[0].expected.limit])
def test_the_limit_that_it_says_is_what_holds_the_queue(name):
    before, during, _ = parts(name)
    held, limit = during.held(), SCENARIOS[name].incidents[0].expected.limit

    waited = sum(held[hold] for hold in HOLDS[limit])
    assert waited > 0.7 * held.total()
    assert waited / len(during.ends) > 20 * sum(before.held()[hold] for hold in HOLDS[limit]) / len(
        before.ends
    )


@pytest.mark.parametrize("name", ["slots-exhausted", "abusive-session", "rejections"])
def test_slots_are_exhausted_during_the_incident_and_not_before(name):
    slots = SCENARIOS[name].limits.max_num_seqs

    def exhausted(sample):  # who ended in the step that the sample is of, has left its slot
        return sample.running >= slots - 2 and sample.waiting > 0

    before, during, _ = parts(name)
    assert before.share(exhausted) == 0.0
    assert during.share(exhausted) > 0.95
    assert max(sample.running for sample in during.samples) == slots


def test_one_session_is_behind_most_requests_that_run():
    _, during, _ = parts("abusive-session")

    assert share(one.ended.arrival.session_id == "loop" for one in during.ends) > 0.5


def test_a_bounded_queue_rejects_what_comes_then():
    before, during, _ = parts("rejections")

    assert not [one for one in before.ends if one.ended.end is End.REFUSED]
    assert share(one.ended.end is End.REFUSED for one in during.ends) > 0.2
    assert max(sample.waiting + sample.running for sample in during.samples) <= 80


def test_the_kv_cache_thrashes_with_slots_to_spare():
    before, during, _ = parts("kv-thrashing")

    assert before.gained("preemptions") == 0
    assert during.gained("preemptions") > 100
    assert during.share(lambda sample: sample.kv_usage > 0.95 and sample.waiting > 0) > 0.7
    assert max(sample.running for sample in during.samples) < SCENARIOS["kv-thrashing"].limits.max_num_seqs


def test_long_prompts_fill_the_steps():
    before, during, _ = parts("long-prompt-flood")

    def tokens(part):
        return part.gained("step_tokens") / part.gained("steps")

    assert tokens(during) > 3 * tokens(before)
    flood = [one for one in during.ends if one.ended.arrival.client == "importer"]
    assert Cause.PREFILL_LONG in {one.label.cause for one in flood if one.label.slow}
    assert median(one.ended.prompt_tokens for one in flood) > 80_000


def test_runaway_answers_are_long_and_at_a_good_rate():
    _, during, after = parts("runaway-outputs")
    agent = [one for part in (during, after) for one in part.ends if one.ended.arrival.client == "agent"]

    assert len(agent) > 50
    assert {one.ended.output_tokens for one in agent} == {4096}
    assert {one.label.cause for one in agent} == {Cause.DECODE_LONG}
    assert max(one.ended.tpot_s for one in agent) < SCENARIOS["runaway-outputs"].promise.tpot


def test_a_slow_gpu_is_six_times_as_slow_and_makes_no_queue():
    before, during, _ = parts("slow-gpu")

    def pace(part):
        return median(one.ended.tpot_s for one in part.ends if one.ended.tpot_s)

    assert pace(during) > 5 * pace(before)
    assert during.share(lambda sample: sample.waiting > 10) == 0.0


def test_a_hung_engine_shows_frozen_gauges_and_no_token_but_its_page():
    stage = staged("hang")
    during = stage.part(START + 5, END)

    assert during.gained("generation_tokens") == 0
    assert {sample.running for sample in during.samples} == {during.samples[0].running}
    assert during.samples[0].running > 0
    assert all(scrape.samples for scrape in during.scrapes)
    assert not [one for one in during.ends if one.ended.finished]
    gave_up = [one for one in during.wrong if one.ended.arrival.times_out and one.ended.end is End.LEFT]
    assert {one.label.cause for one in gave_up} == {Cause.ENGINE_ERROR}


def test_a_crash_loop_starts_again_and_again():
    stage = staged("crash-loop")
    during = stage.part(START, END)

    assert len({scrape.started_at for scrape in during.scrapes}) >= 6
    assert {bool(scrape.samples) for scrape in during.scrapes} == {True, False}
    assert {one.ended.end for one in during.ends} >= {End.FAILED, End.REFUSED}


def test_a_bad_version_fails_a_third_and_its_engine_none():
    before, during, after = parts("bad-deploy")

    assert share(one.ended.end is End.BROKEN for one in during.ends) == pytest.approx(0.3, abs=0.05)
    assert not [one for part in (before, after) for one in part.ends if one.ended.end is End.BROKEN]
    assert during.share(lambda sample: sample.waiting > 10) == 0.0


def test_retries_make_a_storm():
    before, during, _ = parts("retry-storm")

    def retried(part):
        return share(one.ended.arrival.attempt > 1 for one in part.ends)

    assert retried(before) < 0.05
    assert retried(during) > 0.4


def test_without_prefix_caching_every_prompt_is_computed_anew():
    before, during, _ = parts("prefix-cache-lost")

    def hits(part):
        ended = [one.ended for one in part.ends if one.ended.scheduled_at is not None]
        return sum(one.cached_tokens for one in ended) / sum(one.prompt_tokens for one in ended)

    assert hits(before) > 0.5
    assert hits(during) < 0.05


def test_a_stopped_log_has_no_line_and_a_failed_scrape_no_page():
    for name, stopped in (("log-stops", True), ("scrape-fails", False)):
        stage = staged(name)
        during, before = stage.part(START + 1, END), stage.part(0.0, START)
        assert all((one.lines is None) is stopped for one in during.ends)
        assert all((not scrape.samples) is stopped for scrape in during.scrapes)
        assert all(one.lines is not None for one in before.ends)
        assert all(scrape.answers for scrape in before.scrapes)
        assert all(scrape.answers is stopped for scrape in during.scrapes)


def test_a_dead_engine_answers_200_with_an_error():
    during = staged("dead-engine").part(START + 1, END)

    assert during.gained("finished") == during.gained("generation_tokens") == 0
    dead = [one for one in during.ends if one.ended.end is End.FAILED]
    assert len(dead) > 100
    assert all(b'"status":200' in one.lines.app and b'"outcome":"error"' in one.lines.app for one in dead)


def test_a_slow_app_leaves_the_engine_s_own_times_alone():
    before, during, _ = parts("slow-app")

    def ttft(part):
        return median(one.ended.ttft_s for one in part.ends if one.ended.ttft_s is not None)

    assert ttft(during) == pytest.approx(ttft(before), rel=0.3)
    assert median(one.ended.arrival.outside_s for one in during.ends) > 4.0


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_day_never_queues_for_long(name):
    whole = staged(name).part()
    last = 0.0
    for scrape in whole.scrapes:
        if not any(sample.waiting > 0 for sample in scrape.samples):
            last = scrape.at
        assert scrape.at - last <= 30.0, f"a queue from {last} on"
    if whole.samples:
        assert whole.gained("preemptions") <= 0.005 * len(whole.ends)
    assert len([one for one in whole.wrong if one.label.cause not in NOISE]) <= 0.05 * len(whole.ends)


def test_a_full_batch_keeps_the_cache_full_and_every_promise():
    warm = staged("full-batch").part(120.0)

    assert median(sample.kv_usage for sample in warm.samples) == pytest.approx(0.95, abs=0.02)
    assert not warm.wrong


def test_a_swap_loses_no_request_but_all_counts():
    stage = staged("blue-green")
    starts = {scrape.started_at for scrape in stage.part().scrapes}

    assert len(starts) == 3
    assert {one.ended.end for one in stage.part().ends} <= {End.STOP, End.LENGTH, End.LEFT, End.INVALID}
    assert all(scrape.samples for scrape in stage.part().scrapes)


def test_an_engine_that_sleeps_says_so_and_one_that_loads_says_nothing():
    asleep = staged("sleep-and-wake").part(START + 5, END)
    assert not any(sample.awake for sample in asleep.samples)

    loading = staged("model-load").part(0.0, 600.0)
    assert not any(scrape.samples for scrape in loading.scrapes)
    assert staged("model-load").part(600.0).samples


def test_a_day_has_a_night_and_a_noon():
    rate = SCENARIOS["diurnal"].workload[0].rate
    assert rate.at(43200.0) == pytest.approx(19 * rate.at(0.0))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_tells_in_words_what_it_is(scenario: Scenario):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", scenario.name)
    assert "\n" not in scenario.summary
    assert scenario.summary.endswith(".")
    assert scenario.shows.endswith(".")
    assert all(re.fullmatch(r"VLLM[A-Za-z]+", alert) for alert in scenario.allowed)
    assert all(0 <= incident.start < incident.end <= scenario.seconds for incident in scenario.incidents)
    for incident in scenario.incidents:
        assert all(incident.start <= deed.at <= incident.end for deed in incident.deeds)
        names = (*incident.expected.alerts, *incident.expected.allowed)
        assert all(re.fullmatch(r"VLLM[A-Za-z]+", alert) for alert in names)
