from __future__ import annotations

from collections.abc import Iterable

import pytest

from support.engines import case, sample
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.engine.stalls import StallWatch
from vllm_observe.model import EngineSample
from vllm_observe.thresholds import STALL_AFTER_S


def busy(tokens: float, **values: float | bool | None) -> EngineSample:
    """Two requests run; so many tokens were generated."""
    return sample(**{"running": 2.0, "waiting": 0.0, "generation_tokens": tokens} | values)


def stalled(scrapes: Iterable[tuple[float, EngineSample]], after: float = 300.0) -> list[bool | None]:
    watch, seen = StallWatch(), []
    for now, found in scrapes:
        watch.observe(found, now)
        seen.append(watch.stalled(after))
    return seen


@pytest.mark.parametrize("kind", ["stall", "zombie"])
def test_an_engine_that_has_work_and_makes_no_token_is_stalled_after_five_minutes(kind):
    scrapes = []
    for second in range(0, 361, 60):
        [found] = engine_samples(case(f"07-engine-stalled/{kind}_{second:03}.prom"), at=second)
        scrapes.append((float(second), found))
    assert stalled(scrapes, STALL_AFTER_S) == [False, False, False, False, False, True, True]


def test_one_token_in_time_is_progress():
    assert stalled([(0, busy(5)), (299, busy(6)), (598, busy(6)), (599, busy(6))]) == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("counter", ["prompt_tokens", "generation_tokens", "steps"])
def test_any_counter_of_progress_is_progress(counter):
    flat = {"prompt_tokens": 5.0, "generation_tokens": 5.0, "steps": 5.0}
    work = {"running": 1.0, "waiting": 0.0}
    scrapes = [(0, sample(**work, **flat)), (400, sample(**work, **flat | {counter: 6.0}))]
    assert stalled(scrapes) == [False, False]


def test_progress_ends_a_stall_and_the_time_starts_anew():
    scrapes = [(0, busy(5)), (300, busy(5)), (305, busy(6)), (600, busy(6)), (605, busy(6))]
    assert stalled(scrapes) == [False, True, False, False, True]


def test_work_that_is_gone_ends_a_stall_and_the_time_starts_with_the_next_work():
    idle = busy(5, running=0.0)
    scrapes = [(0, busy(5)), (300, busy(5)), (310, idle), (320, busy(5)), (619, busy(5)), (620, busy(5))]
    assert stalled(scrapes) == [False, True, False, False, False, True]


def test_an_idle_engine_never_stalls():
    assert stalled([(0, busy(5, running=0.0)), (9_000, busy(5, running=0.0))]) == [False, False]


def test_a_sleeping_engine_never_stalls_and_has_its_whole_time_after_waking():
    asleep, awake = busy(5, awake=False), busy(5, awake=True)
    scrapes = [(0, asleep), (900, asleep), (905, awake), (1204, awake), (1205, awake)]
    assert stalled(scrapes) == [False, False, False, False, True]


def test_a_gap_between_two_equal_scrapes_counts():
    assert stalled([(0, busy(5)), (5, busy(5)), (905, busy(5))]) == [False, False, True]


def test_one_scrape_proves_no_stall_however_late_it_comes():
    assert stalled([(9_000, busy(5))]) == [False]


def test_without_a_counter_of_progress_nothing_can_be_judged():
    blind = sample(running=2.0, waiting=0.0)
    assert stalled([(0, blind), (900, blind)]) == [None, None]


def test_without_gauges_of_work_nothing_can_be_judged():
    blind = sample(generation_tokens=5.0)
    assert stalled([(0, blind), (900, blind)]) == [None, None]


def test_counters_that_are_missing_between_two_equal_scrapes_do_not_hide_a_stall():
    scrapes = [(0, busy(5)), (150, sample(running=2.0, waiting=0.0)), (300, busy(5))]
    assert stalled(scrapes) == [False, None, True]


def test_a_counter_that_appears_with_the_first_token_is_progress():
    scrapes = [(0, busy(5)), (200, busy(5)), (400, busy(5, prompt_tokens=7.0))]
    assert stalled(scrapes) == [False, False, False]


def test_a_queue_that_grows_is_no_progress():
    scrapes = [(0, busy(5, waiting=1.0)), (300, busy(5, waiting=40.0))]
    assert stalled(scrapes) == [False, True]
