from __future__ import annotations

import threading

import pytest

from vllm_observe.clock import ManualClock
from vllm_observe.sidecar import Loop


class Work:
    """Takes so many seconds each time, and stops the loop after the last."""

    def __init__(self, clock: ManualClock, stop: threading.Event, takes: list[float]) -> None:
        self.began: list[float] = []
        self._clock = clock
        self._stop = stop
        self._takes = takes

    def __call__(self) -> None:
        self.began.append(self._clock.monotonic())
        self._clock.advance(self._takes[len(self.began) - 1])
        if len(self.began) == len(self._takes):
            self._stop.set()


@pytest.fixture
def loop():
    def run(takes: list[float], *, interval: float = 5.0, work_type: type[Work] = Work, faults=None):
        clock, stop, skipped = ManualClock(), threading.Event(), []
        work = work_type(clock, stop, takes)
        Loop(
            name="test",
            interval=lambda: interval,
            work=work,
            skipped=skipped.append,
            fault=[].append if faults is None else faults.append,
            stop=stop,
            clock=clock,
        ).run()
        return work.began, skipped

    return run


def test_work_begins_at_once_and_then_at_every_interval_however_long_it_takes(loop):
    began, skipped = loop([0.5, 2.0, 4.9, 0.1])
    assert began == [0.0, 5.0, 10.0, 15.0]
    assert skipped == []


def test_what_falls_due_meanwhile_is_skipped_and_told_and_the_beat_is_kept(loop):
    began, skipped = loop([12.0, 0.0, 0.0])
    assert began == [0.0, 15.0, 20.0]
    assert skipped == [2]


def test_work_that_takes_exactly_an_interval_skips_nothing_but_the_beat_it_covers(loop):
    began, skipped = loop([5.0, 0.0])
    assert began == [0.0, 10.0]
    assert skipped == [1]


def test_a_fault_ends_neither_the_loop_nor_the_beat(loop):
    class Faulty(Work):
        def __call__(self) -> None:
            super().__call__()
            raise RuntimeError("a fault of ours")

    faults = []
    began, _ = loop([0.0, 0.0, 0.0], work_type=Faulty, faults=faults)
    assert began == [0.0, 5.0, 10.0]
    assert [type(fault) for fault in faults] == [RuntimeError] * 3
