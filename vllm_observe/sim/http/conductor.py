"""The conductor: lets a simulated server go on as a clock does, and tells those that wait of it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count

from vllm_observe.clock import Clock
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.engine import Engine
from vllm_observe.sim.requests import Arrival, Ended, Live

__all__ = ["Conductor", "Ticket"]

#: The shortest sleep between two looks at the clock: a timer of asyncio is no finer.
_LEAST_S = 0.001
#: The longest, so that the watcher is told of time that passes without any step.
_MOST_S = 1.0


class Ticket:
    """One request inside the simulation, for whoever waits for its tokens.

    Attributes:
        ended: how it ended; ``None`` while it goes on.
    """

    def __init__(self, engine: Engine, live: Live, news: asyncio.Event, *, every_token: bool) -> None:
        self._engine = engine
        self._news = news
        self._every_token = every_token
        self._told = 0
        self.live = live
        self.ended: Ended | None = None

    @property
    def tokens(self) -> int:
        """Output tokens by now."""
        return self._engine.tokens_of(self.live) if self.ended is None else self.ended.output_tokens

    def tell(self) -> None:
        """Wake whoever waits, if there is something new to him."""
        if self.ended is not None:
            self._news.set()
        elif self._every_token and self.tokens > self._told:
            self._told = self.tokens
            self._news.set()

    def leave(self) -> None:
        """Let the client go away."""
        if self.ended is None:
            self._engine.leave(self.live)


class Conductor:
    """Simulates a deployment up to the present, again and again.

    For one thread, an event loop's. The deployment's time begins when the conductor is made.

    Args:
        deployment: the server.
        clock: the present.

    Attributes:
        deployment: the server.
        watch: told of the requests that ended, each time that the deployment went on.
        loaded: set while there is a process that has loaded its model.
        at_exit: called when that process is gone, before its requests' clients are told.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        clock: Clock,
    ) -> None:
        self.deployment = deployment
        self.loaded = asyncio.Event()
        self.at_exit: Callable[[], object] = lambda: None
        self._clock = clock
        self.watch: Callable[[Sequence[Ended]], None] = lambda _: None
        self._began = clock.monotonic() - deployment.now
        #: The time of day at the deployment's second 0.
        self.epoch = clock.wall() - deployment.now
        self._poked = asyncio.Event()
        self._numbers = count()
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._open: dict[int, Ticket] = {}  # by the identity of its arrival

    @property
    def now(self) -> float:
        """The present, in the deployment's time."""
        return max(self.deployment.now, self._clock.monotonic() - self._began)

    @property
    def next_event_at(self) -> float:
        """When something happens next by itself; infinity where nothing will."""
        return min(self.deployment.next_event_at, self._agenda[0][0] if self._agenda else math.inf)

    def submit(
        self, arrivals: Sequence[Arrival], news: asyncio.Event, *, every_token: bool = False
    ) -> list[Ticket]:
        """Hand in requests that came as one.

        Args:
            arrivals: each an object of its own.
            news: set when one of them has something new.
            every_token: whether a token is news; else only an end is.
        """
        self.advance()
        tickets = []
        for arrival, (engine, live) in zip(arrivals, self.deployment.submit_all(arrivals), strict=True):
            ticket = Ticket(engine, live, news, every_token=every_token)
            self._open[id(arrival)] = ticket
            tickets.append(ticket)
        self.advance()
        self._poked.set()
        return tickets

    def leave(self, tickets: Iterable[Ticket]) -> None:
        """Let a client go away, now."""
        self.advance()
        for ticket in tickets:
            ticket.leave()
        self.advance()
        self._poked.set()

    def act(self, do: Callable[[], object]) -> None:
        """Have something done now."""
        self.at(self.now, do)
        self.advance()

    def at(self, at: float, do: Callable[[], object]) -> None:
        """Have something done at a time of the deployment's; now, if that is over."""
        heappush(self._agenda, (at, next(self._numbers), do))
        self._poked.set()

    async def wait(self, seconds: float) -> None:
        """Wait on the deployment's clock."""
        over = asyncio.Event()
        self.at(self.now + seconds, over.set)
        await over.wait()

    def advance(self) -> None:
        """Let the deployment go on to the present, and tell of it."""
        now, ended = self.now, []
        while self._agenda and self._agenda[0][0] <= now:
            at, _, do = heappop(self._agenda)
            ended += self.deployment.advance(max(at, self.deployment.now))
            do()
        ended += self.deployment.advance(now)
        if self.deployment.loaded:
            self.loaded.set()
        elif self.loaded.is_set():
            self.loaded.clear()
            self.at_exit()
        for one in ended:
            ticket = self._open.pop(id(one.arrival), None)
            if ticket is not None:
                ticket.ended = one
                ticket.tell()
        for ticket in self._open.values():
            ticket.tell()
        self.watch(ended)

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            self._poked.clear()
            self.advance()
            wait = min(max(self.next_event_at - self.now, _LEAST_S), _MOST_S)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._poked.wait(), wait)
