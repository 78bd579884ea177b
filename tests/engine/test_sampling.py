from __future__ import annotations

import pytest

from support.engines import capture, case, families, sample
from vllm_observe.engine.sampling import engine_samples, increase, work_present
from vllm_observe.model import EngineKey, EngineSample


def only(text: str) -> EngineSample:
    [found] = engine_samples(families(text), at=7.0)
    return found


def test_a_real_saturated_engine_is_read_whole():
    # by hand from the exposition's lines
    assert engine_samples(capture("vllm-0.32.0/saturated.prom"), at=1.5) == [
        EngineSample(
            at=1.5,
            key=EngineKey("tiny", "0"),
            running=8.0,
            waiting=16.0,
            waiting_capacity=16.0,
            waiting_deferred=0.0,
            kv_usage=0.6808510638297872,
            awake=True,
            prompt_tokens=31928.0,
            generation_tokens=6546.0,
            started=46.0,
            finished=37.0,
            preemptions=0.0,
            steps=820.0,
            step_tokens=11210.0,
        )
    ]


def test_each_data_parallel_rank_is_an_engine_of_its_own():
    first, second = engine_samples(capture("vllm-0.32.0/data-parallel-2.prom"), at=0.0)
    assert (first.key.engine, first.prompt_tokens, first.finished, first.steps) == ("0", 11888.0, 8.0, 744.0)
    assert (second.key.engine, second.prompt_tokens, second.finished, second.steps) == (
        "1",
        22180.0,
        27.0,
        818.0,
    )


def test_no_engine_is_left_out_and_none_replaces_another():
    samples = engine_samples(case("05-dp-engines/scrape.prom"), at=0.0)
    assert [s.key for s in samples] == [EngineKey("acme/falcon-mini", str(rank)) for rank in range(4)]
    assert sum(s.running for s in samples) == 126
    assert sum(s.waiting for s in samples) == 9
    assert [s.key.engine for s in samples if s.kv_usage > 0.9] == ["1"]


@pytest.mark.parametrize("page", ["old", "both", "new"])
def test_kv_usage_is_one_reading_under_any_of_its_names(page):
    [found] = engine_samples(case(f"01-kv-rename/{page}.prom"), at=0.0)
    assert found.kv_usage == 0.42


def test_a_real_old_engine_is_read_by_its_old_names():
    [found] = engine_samples(capture("vllm-0.9.2-v0/saturated.prom"), at=0.0)
    assert (found.running, found.waiting, found.kv_usage, found.steps) == (8.0, 16.0, 0.0, 915.0)
    assert (found.waiting_capacity, found.awake) == (None, None)


def test_an_engine_without_an_engine_label_has_an_empty_one():
    assert only('vllm:num_requests_running{model_name="m"} 2\n').key == EngineKey("m", "")


def test_what_is_not_exposed_is_not_known():
    found = only('vllm:num_requests_running{model_name="m",engine="0"} 2\n')
    assert found == EngineSample(at=7.0, key=EngineKey("m", "0"), running=2.0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1"])
@pytest.mark.parametrize(
    ("series", "field"),
    [
        ('vllm:num_requests_waiting{model_name="m"}', "waiting"),
        ('vllm:kv_cache_usage_perc{model_name="m"}', "kv_usage"),
        ('vllm:generation_tokens_total{model_name="m"}', "generation_tokens"),
        ('vllm:engine_sleep_state{model_name="m",sleep_state="awake"}', "awake"),
    ],
)
def test_a_number_that_cannot_be_is_not_known(series, field, value):
    text = f'vllm:num_requests_running{{model_name="m"}} 1\n# TYPE vllm:generation_tokens_total counter\n{series} {value}\n'
    found = only(text)
    assert getattr(found, field) is None
    assert found.running == 1.0


def test_finished_requests_of_every_reason_add_up():
    lines = [
        f'vllm:request_success_total{{model_name="m",finished_reason="{reason}"}} {count}'
        for reason, count in [("stop", 3), ("length", 4), ("a reason of next year", 5)]
    ]
    text = "# TYPE vllm:request_success_total counter\n" + "\n".join(lines) + "\n"
    assert only(text).finished == 12.0


def test_of_gauges_that_differ_in_another_label_the_fullest_counts():
    text = "".join(
        f'vllm:kv_cache_usage_perc{{model_name="m",engine="0",pid="{pid}"}} {usage}\n'
        for pid, usage in [(7, 0.0), (8, 0.9), (9, 0.0)]
    )
    assert only(text).kv_usage == 0.9


@pytest.mark.parametrize("told", [("ReplicaId",), ("WorkerId",), ("ReplicaId", "WorkerId")])
def test_each_replica_on_one_page_has_engines_of_its_own(told):
    def labels(replica):
        return ",".join(['model_name="m",engine="0"', *(f'{name}="{name[0]}{replica}"' for name in told)])

    text = "# TYPE vllm:generation_tokens_total counter\n" + "".join(
        f"vllm:num_requests_running{{{labels(replica)}}} {running}\n"
        f"vllm:num_requests_waiting{{{labels(replica)}}} {waiting}\n"
        f"vllm:generation_tokens_total{{{labels(replica)}}} {tokens}\n"
        for replica, running, waiting, tokens in [(1, 8, 5, 100), (2, 3, 0, 40)]
    )
    found = [
        (s.key.engine, s.running, s.waiting, s.generation_tokens)
        for s in engine_samples(families(text), at=0)
    ]
    name = told[0][0]
    assert found == [(f"0@{name}1", 8.0, 5.0, 100.0), (f"0@{name}2", 3.0, 0.0, 40.0)]


def test_one_bad_finish_reason_makes_their_sum_unknown_rather_than_smaller():
    text = (
        "# TYPE vllm:request_success_total counter\n"
        'vllm:request_success_total{model_name="m",finished_reason="stop"} 3\n'
        'vllm:request_success_total{model_name="m",finished_reason="length"} NaN\n'
    )
    assert only(text).finished is None


@pytest.mark.parametrize(("value", "awake"), [(1, True), (0, False)])
def test_a_sleeping_engine_is_told_by_its_awake_state_alone(value, awake):
    text = (
        f'vllm:engine_sleep_state{{model_name="m",sleep_state="awake"}} {value}\n'
        f'vllm:engine_sleep_state{{model_name="m",sleep_state="discard_all"}} {1 - value}\n'
    )
    assert only(text).awake is awake


def test_an_exposition_without_engines_gives_no_sample():
    assert engine_samples(families("process_start_time_seconds 17\n"), at=0.0) == []


@pytest.mark.parametrize(
    ("running", "waiting", "present"),
    [
        (1.0, 0.0, True),
        (0.0, 3.0, True),
        (None, 1.0, True),
        (0.0, 0.0, False),
        (0.0, None, None),
        (None, None, None),
    ],
)
def test_work_is_present_absent_or_not_known(running, waiting, present):
    assert work_present(sample(running=running, waiting=waiting)) is present


@pytest.mark.parametrize(
    ("before", "now", "rise"),
    [(3.0, 5.0, 2.0), (3.0, 3.0, 0.0), (5.0, 1.0, None), (None, 1.0, None), (1.0, None, None)],
)
def test_an_increase_is_never_negative(before, now, rise):
    assert increase(before, now) == rise
