"""The demo's looks, at a real admin API over a real store."""

from __future__ import annotations

import msgspec
import pytest

from support.looks import seen
from support.stores import T, open_store, put, request
from vllm_observe.cli.demo_picture import Watcher
from vllm_observe.clock import ManualClock
from vllm_observe.demo.alerting import Firing, Programs
from vllm_observe.demo.run import Demo
from vllm_observe.demo.story import DEFAULT, Story, told
from vllm_observe.model import Cause
from vllm_observe.serve.api.routes import api_routes
from vllm_observe.serve.app import admin_app
from vllm_observe.serve.auth import Credentials
from vllm_observe.serve.listener import Listener
from vllm_observe.serve.state import RequestsState
from vllm_observe.serve.verdict import Level

#: The default story's trouble begins twelve seconds after it.
TROUBLE = 12.0
SATURATED = "vllm-0.32.0/saturated.prom"
WORST = Firing("VLLMWorst", "critical", "it is bad")


class Played(Demo):
    """A demo of which no process runs: its sidecar is the test's."""

    fires: tuple[Firing, ...] = ()

    def firing(self) -> tuple[Firing, ...]:
        return self.fires


class Stage:
    """A sidecar's admin listener on a store, and a watcher of it, all on one clock that begins at T."""

    def __init__(self, folder) -> None:
        self.clock = ManualClock(wall=T)
        self.store = open_store(folder / "requests.db", clock=self.clock)
        self.page = SATURATED
        self.slow: dict[str, int] = {}
        app = admin_app(
            state=self._state, auth=Credentials(), extra_routes=api_routes(lambda: self.store, self.clock)
        )
        self.listener = Listener(app, "127.0.0.1:0", flag="--admin-listen")
        self.listener.start()
        nothing = Programs(None, None)
        self.demo = Played(Story(told(DEFAULT)), found=nothing, clock=self.clock, ended=lambda _: False)
        self.demo.admin = self.listener.url
        self.watcher = Watcher(self.demo, self.clock)

    def _state(self):
        return msgspec.structs.replace(seen(self.page), requests=RequestsState(slow=self.slow))

    def ended(self, name: str, at: float, cause: Cause | None = None) -> None:
        """Let a request of four seconds end so many seconds after T."""
        self.clock.advance(at - self.demo.now)
        put(self.store, request(name, cause=cause, start=at - 4.0))
        if cause is not None:
            self.slow[cause.value] = self.slow.get(cause.value, 0) + 1

    def look(self, at: float):
        self.clock.advance(at - self.demo.now)
        return self.watcher.look()


@pytest.fixture
def stage(tmp_path):
    made = Stage(tmp_path)
    yield made
    made.listener.close(5.0)
    made.store.close()


def test_of_what_was_slow_before_the_trouble_nothing_is_said(stage):
    stage.ended("early", 2.0, Cause.PREEMPTED)
    before = stage.look(5.0)
    assert (before.slow, before.at_worst) == ((), None)
    assert [one.request_id for one in before.lately] == ["early"]

    stage.ended("late", TROUBLE + 3.0, Cause.QUEUE_SLOTS)
    stage.ended("fine", TROUBLE + 4.0)
    after = stage.look(TROUBLE + 8.0)
    assert [one.request_id for one in after.slow] == ["late"]
    assert after.main_cause is Cause.QUEUE_SLOTS
    assert after.example is not None
    assert after.example.request_id == "late"
    assert {one.request_id for one in after.lately} == {"early", "late", "fine"}
    assert after.causes == {Cause.PREEMPTED: 1, Cause.QUEUE_SLOTS: 1}  # all since the sidecar's start


def test_the_worst_is_remembered_when_it_has_passed(stage):
    for second in range(5):
        stage.look(TROUBLE + second)
    stage.page = "vllm-0.32.0/idle.prom"
    for second in range(5, 30):  # however long one looks on
        passed = stage.look(TROUBLE + second)
        assert passed.judged.text == "idle"
        assert passed.at_worst is not None
        assert passed.at_worst.text == "saturated: 8 of 8 slots, 16 waiting"


def test_what_was_seen_once_is_no_trouble_however_often_it_comes_back(stage):
    for second in range(0, 12, 2):
        stage.page = "vllm-0.32.0/saturated.prom"
        stage.look(TROUBLE + second)
        stage.page = "vllm-0.32.0/idle.prom"
        assert stage.look(TROUBLE + second + 1).at_worst is None


def test_an_alert_that_fires_no_more_has_fired(stage):
    stage.demo.fires = (WORST,)
    assert stage.look(20.0).firing == (WORST,)
    stage.demo.fires = ()
    later = stage.look(21.0)
    assert (later.firing, later.fired) == ((), {"VLLMWorst": "critical"})


def test_without_a_sidecar_what_is_known_is_kept(stage):
    stage.demo.fires = (WORST,)
    for second in range(4):
        stage.look(TROUBLE + second)
    stage.listener.close(5.0)
    alone = stage.look(TROUBLE + 5.0)
    assert alone.state is None
    assert alone.judged.level is Level.PROBLEM
    assert alone.at_worst is not None
    assert alone.fired == {"VLLMWorst": "critical"}
