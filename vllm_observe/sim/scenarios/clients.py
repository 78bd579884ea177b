"""The clients of a workload: what they send, when, and what they do upon each answer.

They know nothing of how time passes: whoever drives them, on a virtual clock or a real one, asks when
something is due, sends what they give, and tells them how each request ended. Every session draws its
chance from its own name, so what one has to wait for does not change what another one says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random

from vllm_observe.sim.prompts import Segment, length
from vllm_observe.sim.requests import Arrival
from vllm_observe.sim.scenarios.workloads import Sessions, Source, Workers, Workload

__all__ = ["REACTION_S", "Clients", "Heard"]

#: No client does anything sooner than this after it heard of something, in seconds.
REACTION_S = 0.1


class Heard(Enum):
    """How a request ended for its client."""

    ANSWERED = "answered"
    FAILED = "failed"  # refused, or an error that a retry may mend
    TIMED_OUT = "timed_out"
    LEFT = "left"  # the person went away
    INVALID = "invalid"  # the client's own fault, so that a retry mends nothing


_RETRIED = {Heard.FAILED, Heard.TIMED_OUT}


@dataclass(eq=False, slots=True)
class _Session:
    """A session on its way: its source, its name, its own chance, and what was said so far."""

    source: Source
    name: str
    chance: Random
    turns: int
    said: tuple[Segment, ...]
    turn: int = 0


class Clients:
    """All clients of a workload.

    Args:
        workload: what they do; every source has its own name.
        context: the longest request that their model takes, in tokens; a session that would become
            longer ends.
        seed: of all chance.
        delay: the seconds that a request sent at a time spends outside the engine, beside what its
            source says.
        prefix: what every id begins with.

    Attributes:
        sent: how many requests were sent, retries included.
    """

    def __init__(
        self,
        workload: Workload,
        *,
        context: int,
        seed: int = 0,
        delay: Callable[[float], float] = lambda _: 0.0,
        prefix: str = "",
    ) -> None:
        self.sent = 0
        self._context = context
        self._seed = seed
        self._delay = delay
        self._prefix = prefix
        self._agenda: list[tuple[float, int, Callable[[float], Iterator[Arrival]]]] = []
        self._order = count()
        self._asked: dict[tuple[str, int], _Session] = {}
        self._numbers = {source.name: count(1) for source in workload}
        if len(self._numbers) < len(workload):
            raise ValueError("two sources have the same name")
        for source in workload:
            self._open(source)

    @property
    def next_at(self) -> float:
        """When something is due; infinity while all wait for answers."""
        return self._agenda[0][0] if self._agenda else math.inf

    @property
    def in_flight(self) -> int:
        """Requests that were sent and of whose end nobody told yet."""
        return len(self._asked)

    def due(self, now: float) -> Iterator[Arrival]:
        """Give what is to be sent by now, in order."""
        while self.next_at <= now:
            at, _, act = heappop(self._agenda)
            yield from act(at)

    def hear(self, arrival: Arrival, how: Heard, at: float) -> None:
        """Be told how a request ended for its client, and when."""
        session = self._asked.pop((arrival.request_id, arrival.attempt))
        source = session.source
        if how in _RETRIED and arrival.attempt <= source.manners.retries:
            pause = source.manners.backoff_s * 2 ** (arrival.attempt - 1)
            self._in(pause, at, partial(self._ask_again, session, arrival))
        elif how is Heard.ANSWERED and session.turn < session.turns:
            session.said = (*arrival.prompt, arrival.answer)
            self._in(source.profile.think.draw(session.chance), at, partial(self._ask, session))
        else:
            self._over(session, 0.0 if how is Heard.ANSWERED else source.manners.backoff_s, at)

    # --- Sources

    def _open(self, source: Source) -> None:
        if isinstance(source, Workers):
            for _ in range(source.at_once):
                self._at(source.since, partial(self._work, source))
        else:
            self._await_next(source, self._chance(source.name), source.since)

    def _await_next(self, source: Sessions, chance: Random, after: float) -> None:
        """Wait for the next session: one of a constant rate, thinned out to the rate of the time."""
        at, most = after, source.rate.most
        while most > 0 and (at := at + chance.expovariate(most)) < source.until:
            if chance.random() * most <= source.rate.at(at):
                self._at(at, partial(self._meet, source, chance))
                return

    def _meet(self, source: Sessions, chance: Random, now: float) -> Iterator[Arrival]:
        self._await_next(source, chance, now)
        return self._ask(self._session(source, next(self._numbers[source.name])), now)

    def _work(self, source: Workers, now: float) -> Iterator[Arrival]:
        number = next(self._numbers[source.name])
        if number <= source.sessions:
            yield from self._ask(self._session(source, number), now)

    def _over(self, session: _Session, pause: float, at: float) -> None:
        if isinstance(session.source, Workers):
            self._in(pause, at, partial(self._work, session.source))

    # --- Sessions

    def _session(self, source: Source, number: int) -> _Session:
        profile, name = source.profile, f"{self._prefix}{source.name}-{number}"
        chance = self._chance(name)
        system = Segment(f"system {profile.name}", profile.system_tokens)
        context = Segment(f"context {name}", profile.context.whole(chance))
        return _Session(source, name, chance, profile.turns.whole(chance), (system, context))

    def _ask(self, session: _Session, now: float) -> Iterator[Arrival]:
        """Send a session's next turn, unless it has become too long or its time is over."""
        source, chance = session.source, session.chance
        profile, manners = source.profile, source.manners
        session.turn += 1
        request_id = f"{session.name}-{session.turn}"
        prompt = (*session.said, Segment(f"question {request_id}", profile.question.whole(chance)))
        output = profile.output.whole(chance)
        leaves = manners.patience.draw(chance) if chance.random() < manners.leaving else math.inf
        if chance.random() < manners.oversized:
            prompt = (*prompt, Segment("too much", self._context))
        elif length(prompt) + min(output, profile.max_tokens) > self._context:
            self._over(session, 0.0, now)
            return
        if isinstance(source, Workers) and now >= source.until:
            return
        one_session = isinstance(source, Workers) and source.one_session
        yield self._send(
            session,
            Arrival(
                at=now,
                request_id=request_id,
                prompt=prompt,
                output_tokens=output,
                max_tokens=profile.max_tokens,
                outside_s=source.outside_s + self._delay(now),
                leaves_after_s=min(leaves, manners.timeout_s),
                times_out=manners.timeout_s < leaves,
                stream=profile.stream,
                path=profile.path,
                session_id=f"{self._prefix}{source.name}" if one_session else session.name,
                profile=profile.name,
                client=source.client,
            ),
        )

    def _ask_again(self, session: _Session, arrival: Arrival, now: float) -> Iterator[Arrival]:
        outside = session.source.outside_s + self._delay(now)
        again = replace(arrival, at=now, attempt=arrival.attempt + 1, outside_s=outside)
        yield self._send(session, again)

    def _send(self, session: _Session, arrival: Arrival) -> Arrival:
        self._asked[arrival.request_id, arrival.attempt] = session
        self.sent += 1
        return arrival

    # --- Time and chance

    def _at(self, when: float, act: Callable[[float], Iterator[Arrival]]) -> None:
        heappush(self._agenda, (when, next(self._order), act))

    def _in(self, pause: float, at: float, act: Callable[[float], Iterator[Arrival]]) -> None:
        self._at(at + max(REACTION_S, pause), act)

    def _chance(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")  # noqa: S311  # chance that must repeat, no secret
