"""A server: its data-parallel engines, the choice among them, its restarts, and what its HTTP side counts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from vllm_observe.model import EngineKey, EngineSample, Limits, LimitsSource
from vllm_observe.sim.cost import Cost, Pace
from vllm_observe.sim.engine import Engine, State
from vllm_observe.sim.http_tally import HttpTally
from vllm_observe.sim.requests import Arrival, Ended, Live
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

    Attributes:
        engines: the ranks of the process that runs now.
        started_at: when that was started.
        http: what its HTTP side counted since then.
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
        self.model = model
        self.limits = limits
        self._cost = cost
        self._ranks = engines
        self._load_s = load_s
        self._seeds = count(seed * 1_000_003)
        self._ended: list[Ended] = []  # when a process was stopped, and not yet told of
        self._start(now)

    def _start(self, now: float) -> None:
        self.started_at = now
        self.http = HttpTally()
        self.engines: Sequence[Engine] = [
            Engine(
                key=EngineKey(self.model, str(rank)),
                limits=self.limits,
                pace=Pace(cost=self._cost, seed=next(self._seeds)),
                now=now,
                ready_at=now + self._load_s,
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
        return not any(engine.scheduler.has_work for engine in self.engines)

    def engine_limits(self) -> Limits:
        """Return its limits, as the plugin in vLLM would write them."""
        limits = self.limits
        return Limits(
            source=LimitsSource.PLUGIN,
            max_num_seqs=limits.max_num_seqs,
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
        engine = min(self.engines, key=lambda engine: engine.load)
        return engine, engine.submit(arrival)

    def advance(self, until: float) -> list[Ended]:
        """Simulate up to a time; return the requests that ended by then, in that order."""
        before, self._ended = self._ended, []
        ended = [one for engine in self.engines for one in engine.advance(until)]
        ended.sort(key=lambda one: one.at)
        for one in ended:
            self.http.answered(one)
        return before + ended

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

    def crash(self) -> None:
        """Let every engine die; the HTTP side goes on to answer, with errors."""
        for engine in self.engines:
            engine.crash()

    def restart(self) -> None:
        """Begin again with a new process: what runs fails, all counts begin at 0."""
        self.crash()
        self._ended = self.advance(self.now)
        self._start(self.now)
