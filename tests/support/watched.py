"""A scheduler that checks its own books around every step."""

from __future__ import annotations

from vllm_observe.sim.requests import Stage
from vllm_observe.sim.scheduler import Scheduler, Step


class Watched(Scheduler):
    """A scheduler that checks its books around every step."""

    def schedule(self, now: float) -> Step:
        """Decide the next step, which passes no limit and has a block for each token."""
        step = super().schedule(now)
        assert len(self.running) <= self.limits.max_num_seqs
        assert step.tokens <= self.limits.max_num_batched_tokens
        assert step.decodes == sum(live.stage is Stage.DECODE for live in self.running)
        assert all(tokens > 0 for _, tokens in step.chunks)
        self.check()
        for live, tokens in step.chunks:
            assert live.holding.blocks * self.limits.block_size >= live.computed + tokens
        for live in self.running:
            if live.stage is Stage.DECODE:
                assert live.holding.blocks * self.limits.block_size > live.computed_at(self.steps)
        return step

    def complete(self, step: Step) -> None:
        """Let a step's tokens be there, each of them once."""
        super().complete(step)
        decoding = [live for live in self.running if live.stage is Stage.DECODE]
        assert self.decoding == len(decoding)
        assert self._context == sum(live.computed_at(self.steps) for live in decoding)
        for live in decoding:
            assert live.computed_at(self.steps) == live.prompt_tokens + live.tokens_at(self.steps) - 1
            assert live.tokens_at(self.steps) < live.arrival.goal
        self.check()

    def check(self) -> None:
        """Make sure that each block is free or used, and each that is used is somebody's."""
        pool = self.pool
        assert pool.free + pool.used == pool.total
        keys = {key for live in self.running for key in live.holding.keys}
        assert pool.used == len(keys) + sum(live.holding.private for live in self.running)
        assert self.waiting.deferred <= len(self.waiting)
