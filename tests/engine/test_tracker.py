from __future__ import annotations

import pytest

from support.engines import KEY, capture, case, families, sample
from vllm_observe.clock import ManualClock
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.model import EngineKey, EngineSample, Family

ONE = EngineKey("tiny", "1")


class Server:
    """A tracker, the clock that it reads, and scrapes of the server that it follows."""

    def __init__(self, **settings: float) -> None:
        self.clock = ManualClock()
        self.tracker = EngineTracker(
            clock=self.clock, **{"stall_after": 300.0, "stale_after": 15.0} | settings
        )

    def scraped(self, *samples: EngineSample, exposed: list[Family] = (), after: float = 5.0) -> None:
        self.clock.advance(after)
        self.tracker.observe(samples, exposed, self.clock.wall())

    def recorded(self, found: list[Family], after: float = 5.0) -> None:
        self.scraped(*engine_samples(found, at=self.clock.wall() + after), exposed=found, after=after)

    @property
    def stalled(self) -> list[bool | None]:
        return [view.stalled for view in self.tracker.engines()]


def exposed(tokens: float, started: float = 17.0) -> list[Family]:
    return families(
        f"process_start_time_seconds {started}\n"
        "# TYPE vllm:generation_tokens_total counter\n"
        f'vllm:generation_tokens_total{{model_name="tiny",engine="0"}} {tokens}\n'
        f'vllm:num_requests_running{{model_name="tiny",engine="0"}} 1\n'
        f'vllm:num_requests_waiting{{model_name="tiny",engine="0"}} 0\n'
    )


def test_before_the_first_good_scrape_nothing_is_known():
    tracker = Server().tracker
    assert not tracker.fresh()
    assert tracker.age() is None
    assert tracker.engines() == []
    assert tracker.answers_without_tokens() is None
    assert tracker.restarts == 0


def test_the_latest_scrape_is_shown_with_the_one_before():
    server = Server()
    first, second = sample(at=1.0, running=1.0), sample(at=2.0, running=2.0)
    server.scraped(first)
    assert [(v.sample, v.previous) for v in server.tracker.engines()] == [(first, None)]
    server.scraped(second)
    assert [(v.sample, v.previous) for v in server.tracker.engines()] == [(second, first)]


def test_without_a_good_scrape_for_the_staleness_everything_is_absent():
    server = Server(stale_after=15.0)
    server.recorded(capture("vllm-0.16.0-engine-dead/metrics.prom"))
    server.clock.advance(14.9)
    assert server.tracker.fresh()
    assert server.tracker.age() == pytest.approx(14.9)
    assert server.tracker.answers_without_tokens() is True
    server.clock.advance(0.1)
    assert not server.tracker.fresh()
    assert server.tracker.engines() == []
    assert server.tracker.answers_without_tokens() is None


def test_a_good_scrape_after_a_stale_time_is_fresh_and_has_no_scrape_before():
    server = Server()
    server.scraped(sample(running=1.0))
    server.scraped(sample(running=2.0), after=60.0)
    assert [view.previous for view in server.tracker.engines()] == [None]


def test_an_engine_that_the_latest_scrape_does_not_show_is_absent():
    server = Server()
    server.scraped(sample(), sample(key=ONE))
    server.scraped(sample(key=ONE), after=0.0)
    assert [view.sample.key for view in server.tracker.engines()] == [ONE]


@pytest.mark.parametrize("kind", ["stall", "zombie"])
def test_a_frozen_engine_is_stalled_within_six_minutes(kind):
    server = Server(stale_after=180.0)
    for second in range(0, 361, 60):
        server.recorded(case(f"07-engine-stalled/{kind}_{second:03}.prom"), after=60.0)
    assert server.stalled == [True]


def test_a_stall_outlasts_scrapes_that_fail_and_scrapes_that_miss_the_engine():
    server = Server()
    work = sample(running=1.0, waiting=0.0, generation_tokens=5.0)
    server.scraped(work)
    server.scraped(work, after=200.0)
    server.scraped(sample(key=ONE), after=5.0)
    server.scraped(work, after=100.0)
    assert server.stalled == [True]


def test_a_stall_ends_with_a_restart_though_the_new_process_counts_the_same():
    server = Server()
    server.recorded(exposed(5))
    server.recorded(exposed(5), after=300.0)
    assert server.stalled == [True]
    server.recorded(exposed(5, started=400.0))
    assert server.stalled == [False]
    assert server.tracker.restarts == 1


def test_a_restart_has_no_scrape_before():
    server = Server()
    server.recorded(exposed(500))
    server.recorded(exposed(3))
    assert server.tracker.restarts == 1
    assert [view.previous for view in server.tracker.engines()] == [None]


def test_a_restart_is_as_old_as_the_first_scrape_of_the_new_process():
    server = Server()
    server.recorded(exposed(500))
    assert server.tracker.restart_age() is None
    server.recorded(exposed(3), after=60.0)
    server.recorded(exposed(9), after=5.0)
    server.clock.advance(2.0)
    assert server.tracker.restart_age() == 7.0


def test_a_restart_in_a_gap_is_counted_when_the_server_is_back():
    server = Server()
    server.recorded(exposed(500))
    server.recorded(exposed(3), after=3600.0)
    assert server.tracker.restarts == 1


def test_a_request_that_ended_between_two_processes_ended_with_the_first():
    server = Server()
    for tokens, started, after in ((100, 17.0, 5.0), (200, 17.0, 5.0), (10, 290.0, 60.0), (300, 290.0, 5.0)):
        server.scraped(sample(), exposed=exposed(tokens, started), after=after)
    first_of_the_new = server.clock.wall() - 5.0
    last_of_the_old = first_of_the_new - 60.0
    around = server.tracker.restarted_around
    assert [around(last_of_the_old + seconds) for seconds in (-1.0, 0.0, 1.0, 60.0, 61.0)] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_a_server_that_just_restarted_is_not_called_dead():
    server = Server()
    server.recorded(capture("vllm-0.16.0-engine-dead/metrics.prom"))
    assert server.tracker.answers_without_tokens() is True
    server.recorded(capture("vllm-0.9.2-v1/idle.prom"))  # started a quarter of an hour later
    assert server.tracker.restarts == 1
    assert server.tracker.answers_without_tokens() is False


def test_a_wall_clock_that_steps_back_changes_no_duration(monkeypatch):
    server = Server()
    work = sample(running=1.0, waiting=0.0, generation_tokens=5.0)
    server.scraped(work)
    monkeypatch.setattr(server.clock, "_wall", server.clock.wall() - 3600.0)
    server.scraped(work, after=5.0)
    assert server.tracker.fresh()
    assert server.tracker.age() == 0.0
    assert server.stalled == [False]
    server.scraped(work, after=295.0)
    assert server.stalled == [True]


def test_the_state_before_a_time_is_found_until_it_was_stale():
    server = Server(stale_after=15.0)
    then = server.clock.wall() + 5.0
    server.scraped(sample(at=then, running=3.0))
    assert server.tracker.sample_before(KEY, then + 14.0) == sample(at=then, running=3.0)
    assert server.tracker.sample_before(KEY, then + 16.0) is None
    assert server.tracker.sample_before(KEY, then - 1.0) is None
    assert server.tracker.samples_between("tiny", then - 1.0, then + 1.0) == [sample(at=then, running=3.0)]


def test_what_an_engine_told_in_a_log_explains_requests_and_is_no_word_of_now():
    server = Server(stale_after=15.0)
    then = server.clock.wall() + 5.0
    server.scraped(sample(at=then, running=3.0))
    server.clock.advance(20.0)
    late = sample(at=then + 19.0, running=8.0)
    server.tracker.told(late)
    assert server.tracker.sample_before(KEY, then + 20.0) == late
    assert not server.tracker.fresh()
    assert server.tracker.engines() == []


def test_what_an_engine_told_that_no_scrape_shows_is_dropped():
    server = Server()
    then = server.clock.wall() + 5.0
    server.scraped(sample(at=then, key=EngineKey("tiny", "0@replica-1")))
    server.tracker.told(sample(at=then + 1.0, running=8.0))
    assert server.tracker.samples_between(None, then + 0.5, then + 9.0) == []


def test_settings_can_change_while_it_runs():
    server = Server(stall_after=300.0)
    work = sample(running=1.0, waiting=0.0, generation_tokens=5.0)
    server.scraped(work)
    server.scraped(work, after=10.0)
    server.tracker.stall_after = 10.0
    assert server.stalled == [True]


def test_engines_that_never_come_back_are_forgotten():
    server = Server(stale_after=15.0)
    for rank in range(100):
        server.scraped(sample(key=EngineKey("tiny", str(rank))))
    assert len(server.tracker._missing) <= 3
