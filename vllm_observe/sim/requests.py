"""A simulated request: as it arrives, while it lives, and as it ended."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from vllm_observe.model import EngineKey
from vllm_observe.sim.blocks import Holding
from vllm_observe.sim.prompts import Segment, block_keys, length

__all__ = ["Arrival", "End", "Ended", "Hold", "Live", "Stage"]


class Hold(Enum):
    """What a request waits for while it is not running."""

    SLOTS = "slots"
    KV = "kv"
    SLOTS_AND_KV = "slots_and_kv"  # no slot, and for lack of blocks no use for one
    BUDGET = "token_budget"
    DEFERRED = "deferred"  # a KV transfer, a grammar, an adapter: nothing that capacity would mend
    STEP = "step"  # nothing but the end of the step that was under way
    ASLEEP = "asleep"  # the engine sleeps
    HUNG = "hung"  # the engine hangs


class End(Enum):
    """How a request ended."""

    STOP = "stop"
    LENGTH = "length"
    LEFT = "left"  # its client did not wait for the end
    REFUSED = "refused"  # a queue limit, or no engine that would take it
    INVALID = "invalid"  # longer than the model's context
    FAILED = "failed"  # its engine died, or was dead
    BROKEN = "broken"  # the HTTP side failed it before an engine saw it


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A request as its client sends it. Times are seconds on the simulation's clock.

    ``output_tokens`` is what the model would say if nothing cut it short.
    """

    at: float
    request_id: str
    prompt: tuple[Segment, ...]
    output_tokens: int
    max_tokens: int | None = None
    priority: int = 0  # lower goes first, as in vLLM
    adapter: str | None = None  # the LoRA adapter that it is for
    output_name: str | None = None  # the content of the answer, for a next turn's prompt
    deferred_s: float = 0.0  # waits so long in the queue for something else than capacity
    outside_s: float = 0.0  # passes so long before the engine hears of it
    leaves_after_s: float = math.inf  # the client's patience, from ``at``
    times_out: bool = False  # when it leaves, it is for a time limit of its own, and its log says so
    attempt: int = 1  # more for a retry, which has the id of the first
    stream: bool = True
    path: str = "/v1/chat/completions"
    session_id: str | None = None
    profile: str | None = None
    client: str | None = None

    @property
    def answer(self) -> Segment:
        """The segment that a next turn's prompt may hold."""
        return Segment(self.output_name or f"answer {self.request_id}", self.goal)

    @property
    def goal(self) -> int:
        """Output tokens that it will have, if it comes to its end."""
        return self.output_tokens if self.max_tokens is None else min(self.output_tokens, self.max_tokens)

    @property
    def natural_end(self) -> End:
        """How it ends if nothing befalls it."""
        cut = self.max_tokens is not None and self.output_tokens >= self.max_tokens
        return End.LENGTH if cut else End.STOP

    @property
    def reaches_engine_at(self) -> float:
        """When the engine hears of it."""
        return self.at + self.outside_s


class Stage(Enum):
    """Where in an engine a request is."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    OVER = "over"


@dataclass(eq=False, slots=True)
class Live:
    """A request inside an engine; the scheduler and the engine write here as it goes on.

    The tokens of a request that decodes are not counted one by one: ``generated`` and ``computed``
    are of the end of step ``marked``, and every step since then has added one.
    """

    arrival: Arrival
    queued_at: float
    prompt_tokens: int
    keys: list[int]
    holding: Holding = field(default_factory=Holding)
    stage: Stage = Stage.WAITING
    turn: tuple[int, int] = (0, 0)  # its place among those that wait
    place: int = 0  # its place among those that run
    generated: int = 0
    computed: int = 0
    marked: int = 0
    finish_step: int = -1
    grow_step: int = -1
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    cached_tokens: int = 0
    preemptions: int = 0
    preempted_at: float | None = None
    lost_s: float = 0.0  # from each preemption to the next token
    lost_before_first_s: float = 0.0
    hung_before_first_s: float = 0.0
    held_from: Mapping[Hold, float] | None = None  # where the totals of ``Holds`` stood when it came
    ready_from: Mapping[Hold, float] | None = None  # and when nothing but capacity held it any more
    held: dict[Hold, float] = field(default_factory=dict)

    @classmethod
    def of(cls, arrival: Arrival, now: float, block_size: int) -> Live:
        """Begin a request's life."""
        segments = (*arrival.prompt, arrival.answer)
        return cls(arrival, now, length(arrival.prompt), block_keys(segments, block_size))

    def tokens_at(self, step: int) -> int:
        """Return the output tokens there are at the end of a step."""
        return self.generated + (step - self.marked if self.stage is Stage.DECODE else 0)

    def computed_at(self, step: int) -> int:
        """Return the tokens in its cache at the end of a step."""
        return self.computed + (step - self.marked if self.stage is Stage.DECODE else 0)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """All there is to know of a request that ended, of its engine's part none where it had none.

    ``running``, ``waiting`` and ``kv_usage`` are the engine's own at that moment; ``ideal_decode_s``
    is what its output would have taken alone on sound hardware; ``hung_s`` is for how long of its life
    its engine hung. ``status`` is what a dead engine's server answered, where that is no 500.
    """

    arrival: Arrival
    at: float
    end: End
    prompt_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    engine: EngineKey | None = None
    queued_at: float | None = None
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float | None = None
    preemptions: int = 0
    held: Mapping[Hold, float] = field(default_factory=dict)
    lost_s: float = 0.0
    lost_before_first_s: float = 0.0
    hung_s: float = 0.0
    hung_before_first_s: float = 0.0
    ideal_decode_s: float = 0.0
    running: int = 0
    waiting: int = 0
    kv_usage: float = 0.0
    status: int | None = None

    @property
    def finished(self) -> bool:
        """Whether the engine brought it to its end, which is when vLLM tells of it."""
        return self.end in {End.STOP, End.LENGTH}

    @property
    def duration_s(self) -> float:
        """Seconds that its client waited."""
        return self.at - self.arrival.at

    @property
    def e2e_s(self) -> float | None:
        """Seconds from its arrival at the engine to its end."""
        return None if self.queued_at is None else self.at - self.queued_at

    @property
    def ttft_s(self) -> float | None:
        """Seconds from its arrival at the engine to its first token."""
        return _between(self.queued_at, self.first_token_at)

    @property
    def queue_s(self) -> float | None:
        """Seconds from queued to first scheduled."""
        return _between(self.queued_at, self.scheduled_at)

    @property
    def prefill_s(self) -> float | None:
        """Seconds from first scheduled to the first token."""
        return _between(self.scheduled_at, self.first_token_at)

    @property
    def decode_s(self) -> float | None:
        """Seconds from the first token to the last."""
        return _between(self.first_token_at, self.last_token_at)

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds for each token after the first; vLLM says 0 where there is none."""
        if self.decode_s is None:
            return None
        return self.decode_s / (self.output_tokens - 1) if self.output_tokens > 1 else 0.0


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start
