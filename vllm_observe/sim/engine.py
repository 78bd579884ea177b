"""One engine core on a virtual clock: requests in, steps one after the other, ended requests out.

Nothing happens between two events (a step's end, a client that leaves, a deferred request that is
ready), so an hour takes as long as its events do. Two events at one time happen in the order in
which the engine can know of them: who arrives at the very end of a step is there for the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from vllm_observe.model import EngineKey, EngineSample
from vllm_observe.sim.cost import Pace
from vllm_observe.sim.holds import Holds
from vllm_observe.sim.requests import Arrival, End, Ended, Hold, Live, Stage
from vllm_observe.sim.scheduler import EngineLimits, Scheduler, Step
from vllm_observe.sim.tally import Tally

__all__ = ["Engine", "Gauges", "State"]


class State(Enum):
    """What an engine does."""

    LOADING = "loading"  # takes no requests yet
    SERVING = "serving"
    SLEEPING = "sleeping"  # takes requests, runs none, and says so
    HUNG = "hung"  # takes requests and makes no progress, silently
    DEAD = "dead"  # fails every request


#: What holds back whom an engine that is in a state has not admitted.
_HOLDS = {State.SERVING: Hold.STEP, State.SLEEPING: Hold.ASLEEP, State.HUNG: Hold.HUNG}


class Gauges(NamedTuple):
    """What vLLM tells of the moment; as of the end of the last step, which is when it tells."""

    running: int = 0
    waiting: int = 0
    deferred: int = 0
    kv_usage: float = 0.0


class Engine:
    """One data-parallel rank.

    Args:
        key: the served model and the rank.
        limits: what it may do at most.
        pace: how long its steps take.
        now: the time of its start.
        ready_at: until when it loads the model.

    Attributes:
        state: what it does; changed by ``become`` and ``crash`` alone.
        now: the time up to which it was simulated.
        tally: its counters and histograms.
        gauges: what it last said of the moment.
        adapters: the LoRA adapters that waited and ran together at some time, as vLLM names them, and
            when last; empty without LoRA.
    """

    def __init__(
        self, *, key: EngineKey, limits: EngineLimits, pace: Pace, now: float = 0.0, ready_at: float = 0.0
    ) -> None:
        self.key = key
        self.limits = limits
        self.pace = pace
        self.now = now
        self.state = State.LOADING if ready_at > now else State.SERVING
        self.tally = Tally(limits.max_model_len)
        self.gauges = Gauges()
        self.scheduler = Scheduler(limits)
        self._ready_at = ready_at
        self._step: Step | None = None
        self._ends_at = math.inf
        self._left_of_step = 0.0  # of the one that was under way when the engine hung
        self._last_end = now
        self._live: dict[Live, None] = {}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._ended: list[Ended] = []
        self._holds = Holds(now)
        self.adapters: dict[tuple[str, str], float] = {}
        self._dead_status: int | None = None

    # --- What is asked of it

    @property
    def load(self) -> int:
        """How much there is to do, as vLLM weighs it to find the rank for a request."""
        return 4 * len(self.scheduler.waiting) + len(self.scheduler.running)

    @property
    def unfinished(self) -> int:
        """Requests that run or wait."""
        return len(self._live)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens of the requests that have no token yet."""
        return sum(live.prompt_tokens for live in self._live if live.first_token_at is None)

    @property
    def next_event_at(self) -> float:
        """When something happens next by itself; infinity where nothing does."""
        begins = self._step is None and self.state is State.SERVING and self.scheduler.could_step(self.now)
        return self.now if begins else self._next_event()

    def tokens_of(self, live: Live) -> int:
        """Return the output tokens that a request has by now."""
        return live.tokens_at(self.scheduler.steps)

    def sample(self, at: float) -> EngineSample:
        """Return what it tells of itself, as a sample of a time."""
        tally, gauges = self.tally, self.gauges
        return EngineSample(
            at=at,
            key=self.key,
            running=gauges.running,
            waiting=gauges.waiting,
            waiting_capacity=gauges.waiting - gauges.deferred,
            waiting_deferred=gauges.deferred,
            kv_usage=gauges.kv_usage,
            awake=self.state is not State.SLEEPING,
            prompt_tokens=tally.prompt_tokens,
            generation_tokens=tally.generation_tokens,
            started=tally.ttft.count,
            finished=tally.finished.total(),
            preemptions=tally.preemptions,
            steps=tally.computed_step_tokens.count,
            step_tokens=tally.computed_step_tokens.sum,
        )

    # --- What is done to it

    def submit(self, arrival: Arrival, *, refusal: End | None = None) -> Live:
        """Take a request at the present time; one that it cannot take ends at once.

        Args:
            arrival: the request.
            refusal: how the HTTP side ends it, where it does so before the engine sees it.

        Returns:
            What to ask for its tokens by, and to let its client leave by.
        """
        live = Live.of(arrival, self.now, self.limits.block_size)
        refusal = refusal or self._refusal(live)
        if refusal is not None:
            live.stage = Stage.OVER
            self._over(live, refusal)
            return live
        ready_at = self.now + arrival.deferred_s
        self._holds.begin(live, self.now)
        self._live[live] = None
        self.scheduler.waiting.add(live, ready_at)
        if ready_at > self.now:
            self._at(ready_at, partial(self._be_ready, live))
        else:
            self._be_ready(live)
        leaves_at = arrival.at + arrival.leaves_after_s
        if leaves_at < math.inf:
            self._at(max(leaves_at, self.now), partial(self.leave, live))
        return live

    def leave(self, live: Live) -> None:
        """Let the client of a request go away now; of one that is over, nothing."""
        if live.stage is Stage.OVER:
            return
        self._break_off(live)
        if self.state is State.SERVING and not self.scheduler.has_work:
            self._publish()
        self._over(live, End.LEFT)

    def become(self, state: State) -> None:
        """Serve, sleep or hang from now on; one that loads or is dead stays so.

        A step that was under way when it hung ends as much later as it hung.

        Raises:
            ValueError: an engine loads from its start alone, and dies by ``crash``.
        """
        if state in {State.LOADING, State.DEAD}:
            raise ValueError(f"an engine cannot become {state.value}")
        if self.state in {State.LOADING, State.DEAD}:
            return
        if self.state is State.HUNG:
            self._ends_at = self.now + self._left_of_step
        if state is State.HUNG:
            self._left_of_step, self._ends_at = self._ends_at - self.now, math.inf
        self.state = state
        self._holds.change(_HOLDS[state], self.now)

    def crash(self, status: int | None = None) -> None:
        """Die: every request fails, and what it last said of itself stays.

        Args:
            status: the HTTP status that tells of it from now on, if it is not 500.
        """
        self._dead_status = status
        for live in list(self._live):
            self._break_off(live)
            self._over(live, End.FAILED)
        self._step, self._ends_at = None, math.inf
        self.state = State.DEAD

    def advance(self, until: float) -> list[Ended]:
        """Simulate up to a time; return the requests that ended by then, in that order."""
        while True:
            if self._step is None and self.state is State.SERVING and self.now < until:
                self._begin()
            event = self._next_event()
            if event > until:
                break
            self.now = event
            if event == self._ends_at:
                self._complete()
            elif self.state is State.LOADING and event == self._ready_at:
                self.state = State.SERVING
            else:
                heappop(self._agenda)[2]()
        self.now = max(self.now, until)
        ended, self._ended = self._ended, []
        return ended

    # --- Its steps

    def _next_event(self) -> float:
        events = [self._ends_at]
        if self._agenda:
            events.append(self._agenda[0][0])
        if self.state is State.LOADING:
            events.append(self._ready_at)
        return min(events)

    def _at(self, at: float, act: Callable[[], None]) -> None:
        heappush(self._agenda, (at, next(self._numbers), act))

    def _begin(self) -> None:
        if not self.scheduler.has_work:
            return
        step = self.scheduler.schedule(self.now)
        self._holds.change(step.hold or Hold.STEP, self.now)
        for live in step.preempted:
            self._preempted(live)
        for live in step.admitted:
            self._admitted(live)
        if step.tokens:
            self._step = step
            self._ends_at = self.now + self.pace.step(
                prompt=step.prompt_tokens, decodes=step.decodes, context=step.context
            )

    def _preempted(self, live: Live) -> None:
        self.tally.preemptions += 1
        if live.preempted_at is None:
            live.preempted_at = self.now
            if live.first_token_at is not None:
                live.last_token_at = self._last_end

    def _admitted(self, live: Live) -> None:
        if live.scheduled_at is not None:
            return
        live.scheduled_at = self.now
        live.cached_tokens = live.computed
        live.held = self._holds.of(live, self.now)
        self.tally.prefix_queries += live.prompt_tokens
        self.tally.prefix_hits += live.cached_tokens

    def _complete(self) -> None:
        step, self._step, self._ends_at = self._step, None, math.inf
        if step is None:
            return
        decodes = self.scheduler.decoding
        self.scheduler.complete(step)
        if decodes:
            self.tally.itl.observe(self.now - self._last_end, decodes)
        prompt = cached = 0
        for live in step.emitted:
            if live.first_token_at is None:
                prompt += live.prompt_tokens
                cached += live.cached_tokens
            self._emitted(live)
        self.tally.step(prompt, cached, decodes + len(step.emitted))
        self._last_end = self.now
        self._publish()
        for live in step.finished:
            live.last_token_at = self.now
            self._over(live, live.arrival.natural_end)

    def _emitted(self, live: Live) -> None:
        """Note a token at the end of a prefill: the first, or the first after a preemption."""
        lost = 0.0 if live.preempted_at is None else self.now - live.preempted_at
        live.lost_s += lost
        live.preempted_at = None
        if live.first_token_at is None:
            live.first_token_at, live.lost_before_first_s = self.now, lost
            live.hung_before_first_s = self._holds.hung(live, self.now)
            self.tally.ttft.observe(self.now - live.queued_at)
        elif live.last_token_at is not None:
            self.tally.itl.observe(self.now - live.last_token_at)
        live.last_token_at = self.now

    def _publish(self) -> None:
        waiting = self.scheduler.waiting
        self.gauges = Gauges(
            len(self.scheduler.running), len(waiting), waiting.deferred, self.scheduler.pool.usage
        )
        if self.limits.max_loras is not None:
            self.adapters[self._adapters(Stage.WAITING), self._adapters(Stage.PREFILL, Stage.DECODE)] = (
                self.now
            )

    def _adapters(self, *stages: Stage) -> str:
        found = {live.arrival.adapter for live in self._live if live.stage in stages}
        return ",".join(sorted(name for name in found if name is not None))

    # --- Requests that come and go

    def _refusal(self, live: Live) -> End | None:
        goal = live.arrival.goal
        if goal < 1 or live.prompt_tokens < 1 or live.prompt_tokens + goal > self.limits.max_model_len:
            return End.INVALID
        if self.state is State.DEAD:
            return End.FAILED
        return End.REFUSED if self.state is State.LOADING else None

    def _be_ready(self, live: Live) -> None:
        if live.stage is Stage.WAITING:
            self._holds.ready(live, self.now)

    def _break_off(self, live: Live) -> None:
        """Take away a request that does not come to its end, and note what became of its time."""
        if live.stage is Stage.DECODE:
            live.last_token_at = self._last_end
        if live.preempted_at is not None:
            live.lost_s += self.now - live.preempted_at
        if live.scheduled_at is None:
            live.held = self._holds.of(live, self.now)
        self.scheduler.drop(live)

    def _over(self, live: Live, end: End) -> None:
        self._live.pop(live, None)
        tokens, gauges = live.generated, self.gauges
        ended = Ended(
            arrival=live.arrival,
            at=self.now,
            end=end,
            prompt_tokens=live.prompt_tokens,
            output_tokens=tokens,
            cached_tokens=live.cached_tokens,
            engine=self.key,
            queued_at=live.queued_at,
            scheduled_at=live.scheduled_at,
            first_token_at=live.first_token_at,
            last_token_at=live.last_token_at,
            preemptions=live.preemptions,
            held=live.held,
            lost_s=live.lost_s,
            lost_before_first_s=live.lost_before_first_s,
            hung_s=self._holds.hung(live, self.now),
            hung_before_first_s=live.hung_before_first_s,
            ideal_decode_s=self.pace.cost.decode_alone(max(0, tokens - 1), live.prompt_tokens + tokens // 2),
            running=gauges.running,
            waiting=gauges.waiting,
            kv_usage=gauges.kv_usage,
            status=self._dead_status if end is End.FAILED else None,
        )
        if ended.finished:
            self.tally.request(ended)
        self._ended.append(ended)
