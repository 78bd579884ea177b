from __future__ import annotations

import pytest

from support.engines import capture, families
from vllm_observe.engine import restarts
from vllm_observe.engine.restarts import RestartWatch
from vllm_observe.model import Family


def scrape(started: float | None = None, **counters: float) -> list[Family]:
    """One server with engines 0 and 1; ``generation_0=5`` is engine 0's counter of generated tokens."""
    names = {
        "prompt": "vllm:prompt_tokens_total",
        "generation": "vllm:generation_tokens_total",
        "stop": "vllm:request_success_total",
        "length": "vllm:request_success_total",
        "steps": "vllm:iteration_tokens_total",
        "answers": "http_requests_total",
    }
    lines: dict[str, list[str]] = {}
    for counter, value in counters.items():
        short, engine = counter.split("_")
        labels = f'model_name="m",engine="{engine}",finished_reason="{short}"'
        suffix = "_count" if short == "steps" else ""
        lines.setdefault(names[short], []).append(f"{names[short]}{suffix}{{{labels}}} {value}")
    text = "" if started is None else f"process_start_time_seconds {started}\n"
    for name, samples in lines.items():
        kind = "histogram" if name == "vllm:iteration_tokens_total" else "counter"
        text += f"# TYPE {name} {kind}\n" + "\n".join(samples) + "\n"
    return families(text)


def restarts_over(*scrapes: list[Family]) -> list[bool]:
    watch = RestartWatch()
    seen = [watch.observe(found) for found in scrapes]
    assert watch.count == sum(seen)
    return seen


def test_the_first_scrape_is_no_restart():
    assert restarts_over(scrape(started=17.0, generation_0=5)) == [False]


@pytest.mark.parametrize("counter", ["prompt_0", "generation_0", "stop_0", "steps_0", "answers_0"])
def test_a_counter_that_fell_is_a_restart(counter):
    assert restarts_over(scrape(**{counter: 5}), scrape(**{counter: 5}), scrape(**{counter: 4})) == [
        False,
        False,
        True,
    ]


def test_a_process_that_started_later_is_a_restart_though_its_counters_overtook():
    assert restarts_over(scrape(started=17.0, generation_0=5), scrape(started=90.0, generation_0=700)) == [
        False,
        True,
    ]


def test_a_restart_that_every_engine_and_the_start_time_show_is_one():
    before = scrape(started=17.0, generation_0=5, prompt_0=9, generation_1=5, stop_1=2)
    after = scrape(started=90.0, generation_0=0, prompt_0=0, generation_1=0, stop_1=0)
    assert restarts_over(before, after, after) == [False, True, False]


def test_an_engine_that_comes_back_later_than_its_neighbour_is_no_second_restart():
    assert restarts_over(
        scrape(generation_0=500, generation_1=500),
        scrape(generation_0=1),
        scrape(generation_0=2, generation_1=1),
    ) == [False, True, False]


def test_a_start_time_that_shows_a_scrape_after_the_counters_is_no_second_restart():
    assert restarts_over(
        scrape(started=17.0, generation_0=500), scrape(generation_0=1), scrape(started=90.0, generation_0=2)
    ) == [False, True, False]


def test_two_restarts_are_two():
    assert restarts_over(
        scrape(generation_0=500), scrape(generation_0=1), scrape(generation_0=9), scrape(generation_0=0)
    ) == [False, True, False, True]


def test_a_counter_that_vanishes_and_goes_on_is_no_restart():
    assert restarts_over(
        scrape(generation_0=5, prompt_0=5), scrape(prompt_0=6), scrape(generation_0=5, prompt_0=7)
    ) == [False, False, False]


def test_a_counter_that_vanishes_and_comes_back_lower_is_a_restart():
    assert restarts_over(scrape(generation_0=5), scrape(), scrape(generation_0=1)) == [False, False, True]


def test_a_finish_reason_that_is_cut_off_is_no_restart():
    assert restarts_over(scrape(stop_0=5, length_0=90), scrape(stop_0=5), scrape(stop_0=5, length_0=90)) == [
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_number_that_no_counter_has_is_passed_over(value):
    assert restarts_over(scrape(generation_0=5), scrape(generation_0=value), scrape(generation_0=6)) == [
        False,
        False,
        False,
    ]


def test_a_gauge_may_fall():
    text = 'vllm:num_requests_running{{model_name="m"}} {}\nprocess_resident_memory_bytes {}\n'
    assert restarts_over(families(text.format(9, 9)), families(text.format(1, 1))) == [False, False]


def test_a_real_server_under_load_did_not_restart_until_another_was_started():
    assert restarts_over(
        capture("vllm-0.32.0/saturated.prom"),
        capture("vllm-0.32.0/saturated-1s-later.prom"),
        capture("vllm-0.32.0/idle.prom"),  # of the next process
        capture("vllm-0.32.0/preempting-06.prom"),
        capture("vllm-0.32.0/preempting-12.prom"),
        capture("vllm-0.32.0/preempting-20.prom"),
    ) == [False, False, True, False, False, False]


def test_labels_that_never_come_back_are_forgotten(monkeypatch):
    monkeypatch.setattr(restarts, "_REMEMBERED", 10)
    watch = RestartWatch()
    for rank in range(100):
        watch.observe(scrape(**{f"generation_{rank}": 5}))
    assert len(watch._values) <= 11
