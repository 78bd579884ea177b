"""Small workloads by hand, and clients whose every answer a test gives."""

from __future__ import annotations

from vllm_observe.sim.scenarios.clients import Clients
from vllm_observe.sim.scenarios.workloads import Profile, Rate, Sessions, Spread, Workers


def always(amount: float) -> Spread:
    """The same amount each time."""
    return Spread(median=amount)


def profile(**values) -> Profile:
    """Two turns of 10 tokens each, after a system prompt of 100 and a context of 20; answers of 5."""
    small = {
        "name": "small",
        "system_tokens": 100,
        "context": always(20),
        "question": always(10),
        "output": always(5),
        "max_tokens": 50,
        "turns": always(2),
        "think": always(3.0),
    }
    return Profile(**{**small, **values})


def worker(**values) -> Workers:
    """One session at a time, once."""
    return Workers(
        **{"name": "w", "client": "c", "profile": profile(), "at_once": 1, "sessions": 1, **values}
    )


def people(per_s: float, **values) -> Sessions:
    """Sessions that begin by chance."""
    return Sessions(**{"name": "p", "client": "c", "profile": profile(), "rate": Rate(per_s=per_s), **values})


def clients(*sources, context: int = 1000, **values) -> Clients:
    """Clients of a model that takes a thousand tokens."""
    return Clients(sources, context=context, **values)
