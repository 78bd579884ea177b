"""A server: its data-parallel engines, the choice among them, its restarts, and what its HTTP side counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count
from random import Random

from vllm_observe.model import EngineKey, EngineSample, Limits, LimitsSource
from vllm_observe.sim.admission import Admission
from vllm_observe.sim.cost import Cost, Pace
from vllm_observe.sim.engine import Engine, State
from vllm_observe.sim.http_tally import HttpTally
from vllm_observe.sim.requests import Arrival, End, Ended, Live
from vllm_observe.sim.scheduler import EngineLimits

__all__ = ["Deployment"]


class Deployment:
    """One simulated vLLM.

    Args:
        model: the name under which it serves its model.
        limits: of each engine.
        cost: what the steps of each engine cost.
        engines: how many data-parallel ranks.
        seed: of all chance.
        load_s: how long a start takes.
        now: the time of the first start.

    Raises:
        ValueError: there is no rank, or a start takes no time that could pass.

    Attributes:
        engines: the ranks of the process that runs now.
        started_at: when that was started.
        http: what its HTTP side counted since then.
        admission: whom its HTTP side lets in.
        counts_answers: whether a request's end is an answer to be counted; no where a real HTTP side
            counts its own.
        fail_share: the share of requests that its HTTP side fails, before an engine sees them.
    """

    def __init__(
        self,
        *,
        model: str,
        limits: EngineLimits,
        cost: Cost,
        engines: int = 1,
        seed: int = 0,
        load_s: float = 0.0,
        now: float = 0.0,
    ) -> None:
        if engines < 1:
            raise ValueError("a server has at least one engine")
        if not 0 <= load_s < math.inf:
            raise ValueError("a start takes 0 seconds or more")
        self.model = model
        self.limits = limits
        self._cost = cost
        self._ranks = engines
        self._load_s = load_s
        self.counts_answers = True
        self._seeds = count(seed * 1_000_003)
        self._chance = Random(seed)  # noqa: S311  # chance that must repeat, no secret
        self.fail_share = 0.0
        self._draining: list[Engine] = []  # of processes before this one, until they have no work
        self._ended: list[Ended] = []  # when a process was stopped, and not yet told of
        self._start(now, load_s)

    def _start(self, now: float, load_s: float) -> None:
        self.started_at = now
        self.http = HttpTally()
        self.admission = Admission(self.limits)
        self.engines: Sequence[Engine] = [
            Engine(
                key=EngineKey(self.model, str(rank)),
                limits=self.limits,
                pace=Pace(cost=self._cost, seed=next(self._seeds)),
                now=now,
                ready_at=now + load_s,
            )
            for rank in range(self._ranks)
        ]

    @property
    def now(self) -> float:
        """The time up to which it was simulated."""
        return self.engines[0].now

    @property
    def idle(self) -> bool:
        """Whether no engine runs anything or holds it back."""
        return not any(engine.scheduler.has_work for engine in (*self._draining, *self.engines))

    @property
    def loaded(self) -> bool:
        """Whether there is a process that listens: vLLM's does when its engines have loaded the model."""
        return all(engine.state is not State.LOADING for engine in self.engines)

    @property
    def next_event_at(self) -> float:
        """When something happens next by itself; infinity where nothing does."""
        return min(engine.next_event_at for engine in (*self._draining, *self.engines))

    def engine_limits(self) -> Limits:
        """Return its limits, as the plugin in vLLM would write them."""
        limits = self.limits
        return Limits(
            source=LimitsSource.PLUGIN,
            max_num_seqs=limits.max_num_seqs,
            max_num_active_seqs=limits.max_num_active_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            max_model_len=limits.max_model_len,
            num_gpu_blocks=limits.num_gpu_blocks,
            block_size=limits.block_size,
        )

    def samples(self) -> list[EngineSample]:
        """Return what each engine tells of itself now."""
        return [engine.sample(self.now) for engine in self.engines if engine.state is not State.LOADING]

    def submit(self, arrival: Arrival) -> tuple[Engine, Live]:
        """Give a request to the rank with the least to do, now."""
        return self.submit_all([arrival])[0]

    def submit_all(self, arrivals: Sequence[Arrival]) -> list[tuple[Engine, Live]]:
        """Give requests that came as one, such as several answers to one prompt, each to such a rank."""
        refusal = None
        if self.fail_share > 0 and self._chance.random() < self.fail_share:
            refusal = End.BROKEN
        elif self.loaded and self.admission.refuses(self.engines, len(arrivals)):
            refusal = End.REFUSED
        given = []
        for arrival in arrivals:
            engine = min(self.engines, key=lambda engine: engine.load)
            given.append((engine, engine.submit(arrival, refusal=refusal)))
        return given

    def advance(self, until: float) -> list[Ended]:
        """Simulate up to a time; return the requests that ended by then, in that order."""
        before, self._ended = self._ended, []
        drained = [one for engine in self._draining for one in engine.advance(until)]
        self._draining = [engine for engine in self._draining if engine.scheduler.has_work]
        ended = [one for engine in self.engines for one in engine.advance(until)]
        ended.sort(key=lambda one: one.at)
        for one in ended if self.counts_answers else ():
            self.http.answered(one)
        return before + sorted([*drained, *ended], key=lambda one: one.at)

    def slow_down(self, factor: float) -> None:
        """Let every step from the next on take so many times what it should."""
        for engine in self.engines:
            engine.pace.slowdown = factor

    def forget_prefixes(self) -> None:
        """Lose every prefix that no running request uses."""
        for engine in self.engines:
            engine.scheduler.pool.forget()

    def become(self, state: State) -> None:
        """Let every engine sleep, hang or serve."""
        for engine in self.engines:
            engine.become(state)

    def crash(self, status: int | None = None) -> None:
        """Let every engine die; the HTTP side goes on to answer, with errors.

        Args:
            status: the HTTP status of these errors, if it is not 500: some releases answer 200.
        """
        for engine in self.engines:
            engine.crash(status)

    def restart(self, load_s: float | None = None) -> None:
        """Begin again with a new process: what runs fails, all counts begin at 0.

        Args:
            load_s: how long until it serves, if not as long as any start takes.
        """
        self.crash()
        self._ended = self.advance(self.now)
        self._start(self.now, self._load_s if load_s is None else load_s)

    def swap(self, limits: EngineLimits | None = None) -> None:
        """Put a new process that is ready in the place of this one, which ends what it has begun.

        Args:
            limits: the new process's; ``None`` for the same.
        """
        self._draining.extend(self.engines)
        self.limits = limits or self.limits
        self._start(self.now, 0.0)
