from __future__ import annotations

import pytest

from support.engines import sample
from vllm_observe.engine.history import History
from vllm_observe.model import EngineKey

ZERO, ONE, OTHER = EngineKey("m", "0"), EngineKey("m", "1"), EngineKey("other", "0")


def history(
    *scrapes: tuple[float, tuple[EngineKey, ...]], keep: float = 900.0, max_samples: int = 1000
) -> History:
    made = History(keep=keep, max_samples=max_samples)
    for at, keys in scrapes:
        made.scraped(at, [sample(at=at, key=key) for key in keys])
    return made


@pytest.mark.parametrize(
    ("when", "at"), [(4.9, None), (5.0, 5.0), (9.9, 5.0), (10.0, 10.0), (24.0, 10.0), (26.0, None)]
)
def test_the_newest_sample_at_or_before_a_time_is_found_unless_it_was_stale_then(when, at):
    found = history((5.0, (ZERO,)), (10.0, (ZERO,))).before(ZERO, when, max_age=15.0)
    assert (found.at if found else None) == at


def test_a_missing_engine_is_looked_for_in_earlier_scrapes():
    found = history((5.0, (ZERO, ONE)), (10.0, (ZERO,))).before(ONE, 12.0, max_age=15.0)
    assert found == sample(at=5.0, key=ONE)


def test_a_model_means_its_one_engine_and_not_one_of_several():
    made = history((5.0, (ZERO, ONE, OTHER)))
    assert made.before("other", 5.0, max_age=1.0) == sample(at=5.0, key=OTHER)
    assert made.before("m", 5.0, max_age=1.0) is None
    assert made.before("another name", 5.0, max_age=1.0) is None


def test_no_model_means_the_only_engine():
    assert history((5.0, (ZERO,))).before(None, 5.0, max_age=1.0) == sample(at=5.0, key=ZERO)
    assert history((5.0, (ZERO, OTHER))).before(None, 5.0, max_age=1.0) is None


def test_the_samples_between_two_times_come_oldest_first_with_both_ends():
    made = history(*((float(at), (ZERO, ONE, OTHER)) for at in range(5)))
    assert [(s.at, s.key) for s in made.between("m", 1.0, 2.0)] == [
        (1.0, ZERO),
        (1.0, ONE),
        (2.0, ZERO),
        (2.0, ONE),
    ]
    assert [s.at for s in made.between(OTHER, 3.5, 99.0)] == [4.0]


def test_it_is_bounded_in_seconds():
    made = history(*((float(at), (ZERO,)) for at in range(0, 100, 5)), keep=20.0)
    assert [s.at for s in made.between(None, 0.0, 100.0)] == [75.0, 80.0, 85.0, 90.0, 95.0]


def test_it_is_bounded_in_samples_and_keeps_the_newest_scrape():
    made = history(*((float(at), (ZERO, ONE)) for at in range(10)), max_samples=5)
    assert [s.at for s in made.between(ONE, 0.0, 100.0)] == [7.0, 8.0, 9.0]
    assert len(made) == 5
    made.scraped(10.0, [sample(at=10.0, key=EngineKey("m", str(rank))) for rank in range(50)])
    assert len(made) == 50


def test_a_clock_that_steps_back_takes_the_future_with_it():
    made = history((100.0, (ZERO,)), (200.0, (ZERO,)), (150.0, (ZERO,)), (155.0, (ZERO,)))
    assert [s.at for s in made.between(ZERO, 0.0, 999.0)] == [100.0, 150.0, 155.0]
    assert len(made) == 3


def test_what_an_engine_told_lies_between_the_scrapes_whenever_it_comes():
    made = history((5.0, (ZERO,)), (10.0, (ZERO,)))
    for at in (8.0, 11.0, 7.0):
        made.told(sample(at=at, key=ZERO, running=at))
    assert [s.at for s in made.between(ZERO, 0.0, 99.0)] == [5.0, 7.0, 8.0, 10.0, 11.0]
    assert made.before(ZERO, 9.0, max_age=15.0) == sample(at=8.0, key=ZERO, running=8.0)


def test_what_was_told_for_the_future_is_gone_with_the_next_scrape():
    made = history((5.0, (ZERO,)))
    made.told(sample(at=3600.0, key=ZERO))
    made.scraped(10.0, [sample(at=10.0, key=ZERO)])
    assert [s.at for s in made.between(ZERO, 0.0, 9e9)] == [5.0, 10.0]


def test_what_was_told_is_bounded_as_scrapes_are():
    made = history((100.0, (ZERO,)), max_samples=3)
    for at in (101.0, 102.0, 99.0, 103.0):
        made.told(sample(at=at, key=ZERO))
    assert [s.at for s in made.between(ZERO, 0.0, 999.0)] == [101.0, 102.0, 103.0]
    made = history((100.0, (ZERO,)), keep=20.0)
    made.told(sample(at=50.0, key=ZERO))
    made.scraped(105.0, [sample(at=105.0, key=ZERO)])
    assert [s.at for s in made.between(ZERO, 0.0, 999.0)] == [100.0, 105.0]


def test_an_empty_history_finds_nothing():
    assert history().before(None, 5.0, max_age=99.0) is None
    assert history().between(None, 0.0, 9.0) == []
