"""The plugin with a clock that tests turn, and a list in place of the log."""

from __future__ import annotations

import pytest

from vllm_observe.clock import ManualClock
from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.process import Process
from vllm_observe.plugin.response_ids import ResponseIds
from vllm_observe.plugin.settings import Settings


class Records(list):
    """Takes records as the writer does."""

    def put(self, record):
        self.append(record)

    def keep(self, _, record):
        self.append(record)


@pytest.fixture
def clock():
    return ManualClock(wall=1_800_000_000.0)


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def process(clock, records):
    return Process(
        Settings.read({}), Fuse(), records, ResponseIds(), wall=clock.wall, monotonic=clock.monotonic
    )
