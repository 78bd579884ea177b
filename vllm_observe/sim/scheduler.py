"""The scheduler of one engine: who gets how many tokens in the next step.

As vLLM's: those that run come first, a token for each that decodes, then the rest of a prompt; who
needs a block that is not there throws out the last that was admitted, to be computed again later;
whoever waits is admitted with what is left of slots, tokens and blocks, if there are blocks for all
that it has to compute first; and the first for whom something is missing holds back all behind it.

A step costs what changes in it, not what runs: a request that decodes is entered in two calendars,
for the step in which it needs another block and for the one in which it ends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter

from vllm_observe.sim.blocks import BlockPool
from vllm_observe.sim.requests import Hold, Live, Stage
from vllm_observe.sim.waiting import WaitingQueue

__all__ = ["EngineLimits", "Scheduler", "Step"]

_place = attrgetter("place")


@dataclass(frozen=True, kw_only=True)
class EngineLimits:
    """What an engine may do at most, in vLLM's words."""

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int = 32768
    num_gpu_blocks: int = 8192
    block_size: int = 16
    chunked_prefill: bool = True
    prefix_caching: bool = True
    priority_scheduling: bool = False
    max_num_queued_reqs: int | None = None  # of all ranks together: those that run or wait
    max_num_queued_tokens: int | None = None  # of all ranks together: of prompts without a first token
    max_num_active_seqs: int | None = None
    max_loras: int | None = None  # adapters in a batch; ``None`` without LoRA

    def __post_init__(self) -> None:
        sizes = (self.max_num_seqs, self.max_num_batched_tokens, self.max_model_len)
        if min(*sizes, self.num_gpu_blocks, self.block_size, self.slots, self.max_loras or 1) < 1:
            raise ValueError("every limit is at least 1")
        if min(self.max_num_queued_reqs or 0, self.max_num_queued_tokens or 0) < 0:
            raise ValueError("a limit of the queue is at least 0")
        if self.num_gpu_blocks * self.block_size < self.max_model_len:
            raise ValueError("the KV cache does not hold one request of max_model_len")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError("max_num_batched_tokens is less than max_num_seqs")
        if not self.chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError("without chunked prefill max_num_batched_tokens must be at least max_model_len")
        if self.slots > self.max_num_seqs:
            raise ValueError("max_num_active_seqs is more than max_num_seqs")

    @property
    def slots(self) -> int:
        """Requests that can run at once."""
        return self.max_num_seqs if self.max_num_active_seqs is None else self.max_num_active_seqs


@dataclass(slots=True)
class Step:
    """What one step computes, and after it what came of it.

    ``hold`` is what keeps the first that waits from running; ``None`` if nobody waits for capacity.
    """

    decodes: int = 0
    context: int = 0
    prompt_tokens: int = 0
    chunks: list[tuple[Live, int]] = field(default_factory=list)
    admitted: list[Live] = field(default_factory=list)
    preempted: list[Live] = field(default_factory=list)
    hold: Hold | None = None
    emitted: list[Live] = field(default_factory=list)  # got a token at the end of a prefill
    finished: list[Live] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens computed."""
        return self.decodes + self.prompt_tokens


class Scheduler:
    """Slots, token budget and KV blocks of one engine."""

    def __init__(self, limits: EngineLimits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.num_gpu_blocks, caching=limits.prefix_caching)
        self.waiting = WaitingQueue(by_priority=limits.priority_scheduling)
        self.running: dict[Live, None] = {}  # in the order of admission
        self.steps = 0  # that are complete
        self._decodes = 0
        self._context = 0  # tokens in the caches of those that decode
        self._partial: Live | None = None  # in the middle of its prompt; always the last that runs
        self._grow: defaultdict[int, list[Live]] = defaultdict(list)
        self._finish: defaultdict[int, list[Live]] = defaultdict(list)
        self._places = 0

    @property
    def decoding(self) -> int:
        """How many get a token from each step."""
        return self._decodes

    @property
    def has_work(self) -> bool:
        """Whether anybody runs or waits."""
        return bool(self.running) or len(self.waiting) > 0

    def could_step(self, now: float) -> bool:
        """Say whether a step can begin: somebody runs, or can be admitted."""
        return bool(self.running) or self.waiting.head(now) is not None

    # --- Before a step

    def schedule(self, now: float) -> Step:
        """Decide the next step; one of no tokens if nobody can run."""
        step = Step()
        self._give_blocks(step)
        budget = self.limits.max_num_batched_tokens - self._decodes
        if self._partial is not None:
            budget -= self._continue(self._partial, budget, step)
        step.hold = self._admit(now, budget, step)
        step.decodes, step.context = self._decodes, self._context
        step.prompt_tokens = sum(tokens for _, tokens in step.chunks)
        return step

    def _give_blocks(self, step: Step) -> None:
        """Give a block to each that decodes and whose last one is full."""
        number = self.steps + 1
        for live in sorted(self._grow.pop(number, ()), key=_place):
            if live.grow_step == number and live.stage is Stage.DECODE:
                held = live.holding.blocks
                self.pool.publish(live.holding, live.keys[held - 1 : held])
                if self._make_room(live, 1, step):
                    live.grow_step = number + self.limits.block_size
                    self._grow[live.grow_step].append(live)

    def _make_room(self, live: Live, blocks: int, step: Step) -> bool:
        """Take blocks for one that runs, from others if need be; say whether it still runs."""
        while not self.pool.take(live.holding, (), blocks):
            victim = self._victim()
            self._preempt(victim, step)
            if victim is live:
                return False
        return True

    def _victim(self) -> Live:
        if self.limits.priority_scheduling:
            return max(self.running, key=lambda live: (live.arrival.priority, live.queued_at, live.place))
        return next(reversed(self.running))

    def _preempt(self, live: Live, step: Step) -> None:
        live.generated = live.tokens_at(self.steps)
        self._stop(live)
        live.stage, live.computed = Stage.WAITING, 0
        live.preemptions += 1
        self.waiting.put_back(live)
        step.preempted.append(live)

    def _continue(self, live: Live, budget: int, step: Step) -> int:
        """Compute the next part of a prompt; return its tokens."""
        tokens = min(budget, live.prompt_tokens + live.generated - live.computed)
        if tokens < 1:
            return 0
        missing = self._blocks_for(live.computed + tokens) - live.holding.blocks
        if not self._make_room(live, max(0, missing), step):
            return 0
        self._compute(live, tokens, step)
        return tokens

    def _admit(self, now: float, budget: int, step: Step) -> Hold | None:
        """Admit those that wait until something is missing; return what."""
        while (live := self.waiting.head(now)) is not None:
            if len(self.running) >= self.limits.slots:
                return Hold.SLOTS if self._has_room_for(live) else Hold.SLOTS_AND_KV
            if step.preempted:
                return Hold.KV
            if budget < 1:
                return Hold.BUDGET
            wanted = live.prompt_tokens + live.generated
            hits = self.pool.cached(live.keys[: (wanted - 1) // self.limits.block_size])
            computed = hits * self.limits.block_size
            tokens = min(budget, wanted - computed)
            if tokens < wanted - computed and not self.limits.chunked_prefill:
                return Hold.BUDGET
            cached = live.keys[:hits]
            if not self.pool.fits(cached, self._blocks_for(wanted) - hits):
                return Hold.KV
            self.pool.take(live.holding, cached, self._blocks_for(computed + tokens) - hits)
            self.waiting.pop()
            self._start(live, computed, step)
            self._compute(live, tokens, step)
            budget -= tokens
        return None

    def _has_room_for(self, live: Live) -> bool:
        """Say whether there are blocks for all that one that waits will come to, were none of it cached."""
        return self._blocks_for(live.prompt_tokens + live.arrival.goal) <= self.pool.free

    def _start(self, live: Live, computed: int, step: Step) -> None:
        live.stage, live.computed = Stage.PREFILL, computed
        self._places += 1
        live.place = self._places
        self.running[live] = None
        step.admitted.append(live)

    def _compute(self, live: Live, tokens: int, step: Step) -> None:
        step.chunks.append((live, tokens))
        full = (live.computed + tokens) // self.limits.block_size
        self.pool.publish(live.holding, live.keys[live.computed // self.limits.block_size : full])
        done = live.computed + tokens == live.prompt_tokens + live.generated
        self._partial = None if done else live

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)

    # --- After it

    def complete(self, step: Step) -> None:
        """Let a step's tokens be there: note who got one at the end of its prefill, and who ended."""
        self.steps += 1
        self._context += self._decodes
        for live in self._finish.pop(self.steps, ()):
            if live.finish_step == self.steps and live.stage is Stage.DECODE:
                live.generated = live.arrival.goal
                self._end(live)
                step.finished.append(live)
        for live, tokens in step.chunks:
            if live.stage is Stage.PREFILL:
                live.computed += tokens
                if live.computed == live.prompt_tokens + live.generated:
                    self._emit(live, step)

    def _emit(self, live: Live, step: Step) -> None:
        """Give a request the token that the end of its prefill brings, and let it decode on."""
        live.generated += 1
        live.marked = self.steps
        step.emitted.append(live)
        if live.generated >= live.arrival.goal:
            self._end(live)
            step.finished.append(live)
            return
        live.stage = Stage.DECODE
        self._decodes += 1
        self._context += live.computed
        live.finish_step = self.steps + live.arrival.goal - live.generated
        self._finish[live.finish_step].append(live)
        room = live.holding.blocks * self.limits.block_size - live.computed
        live.grow_step = self.steps + 1 + room
        self._grow[live.grow_step].append(live)

    # --- At any time

    def drop(self, live: Live) -> None:
        """Forget a request at once, whether it waits or runs."""
        if live.stage is Stage.WAITING:
            live.stage = Stage.OVER
            self.waiting.drop(live)
            return
        live.generated = live.tokens_at(self.steps)
        self._end(live)

    def _end(self, live: Live) -> None:
        self._stop(live)
        live.stage = Stage.OVER

    def _stop(self, live: Live) -> None:
        """Take a request out of the batch, and its blocks from it."""
        if live.stage is Stage.DECODE:
            self._decodes -= 1
            self._context -= live.computed_at(self.steps)
        if self._partial is live:
            self._partial = None
        live.finish_step = live.grow_step = -1
        del self.running[live]
        self.pool.release(live.holding)
