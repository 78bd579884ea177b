"""Whatever befalls a server in a scenario: at each step its books are right, and at the end nothing is lost."""

from __future__ import annotations

import pytest

from support.watched import Watched
from vllm_observe.sim.engine import Engine
from vllm_observe.sim.scenarios.hurry import hurried
from vllm_observe.sim.scenarios.registry import SCENARIOS
from vllm_observe.sim.scenarios.virtual import Play, Told


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_block_token_or_request_is_lost_or_counted_twice(name, monkeypatch):
    engines, handed_in = [], []

    class Noted(Engine):
        def __init__(self, **settings):
            super().__init__(**settings)
            engines.append(self)

        def submit(self, arrival, **how):
            live = super().submit(arrival, **how)
            handed_in.append((self, live))
            return live

    monkeypatch.setattr("vllm_observe.sim.engine.Scheduler", Watched)
    monkeypatch.setattr("vllm_observe.sim.deployment.Engine", Noted)
    scenario = hurried(SCENARIOS[name], before=6.0, during=12.0, after=6.0)
    play = Play(scenario, seed=1, release=None, epoch=0.0)
    ended = [one.ended for one in play.run(1.0) if isinstance(one, Told)]

    # Every request that was sent has ended once, is inside, or is on its way there.
    attempts = [(one.arrival.request_id, one.arrival.attempt) for one in ended]
    assert len(set(attempts)) == len(attempts)
    assert play.clients.sent == len(ended) + play.clients.in_flight
    over = {id(one.arrival) for one in ended}
    inside = [(engine, live) for engine, live in handed_in if id(live.arrival) not in over]
    assert len(handed_in) == len(ended) + len(inside)
    held = sum(len(engine.scheduler.running) + len(engine.scheduler.waiting) for engine in engines)
    assert held == len(inside) <= play.clients.in_flight
    # Every token is some request's, and was counted once; every finish, too.
    tokens = sum(one.output_tokens for one in ended) + sum(engine.tokens_of(live) for engine, live in inside)
    assert sum(engine.tally.generation_tokens for engine in engines) == tokens
    assert sum(engine.tally.finished.total() for engine in engines) == sum(one.finished for one in ended)
    for engine in engines:
        engine.scheduler.check()
