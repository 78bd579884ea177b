"""How long an engine step takes: a small model of the hardware, the same for the same seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

__all__ = ["H100_70B", "TINY_CPU", "Cost", "Pace"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a step costs, in seconds.

    A step reads the weights once (``overhead``), computes its prompt tokens, and reads the cache of
    each request that decodes. ``jitter`` is the share by which a step may be longer or shorter.
    """

    overhead: float
    per_prompt_token: float
    per_decode: float  # for each request that gets a token
    per_context_token: float  # for each token in those requests' caches
    jitter: float = 0.0

    def step(self, *, prompt: int, decodes: int, context: int) -> float:
        """Seconds for a step on hardware that does what it should."""
        return (
            self.overhead
            + prompt * self.per_prompt_token
            + decodes * self.per_decode
            + context * self.per_context_token
        )

    def decode_alone(self, tokens: int, context: int) -> float:
        """Seconds for so many tokens of one request that has the engine to itself."""
        return tokens * self.step(prompt=0, decodes=1, context=context)


#: The tiny model on a CPU that the recorded servers ran: about 6 ms between tokens with 8 running.
TINY_CPU = Cost(
    overhead=0.003, per_prompt_token=1.5e-5, per_decode=0.0003, per_context_token=2e-8, jitter=0.15
)

#: A model of 70 billion parameters on eight H100: 20 ms a token alone, 33,000 prompt tokens a second.
H100_70B = Cost(overhead=0.020, per_prompt_token=3e-5, per_decode=3e-5, per_context_token=2e-8, jitter=0.05)


@dataclass(kw_only=True)
class Pace:
    """A cost with its chance: what the steps of one engine really take.

    ``slowdown`` may change while the engine runs: 3.0 is a GPU at a third of its speed.
    """

    cost: Cost
    seed: int = 0
    slowdown: float = 1.0
    _random: Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311  # chance that must repeat, no secret

    def step(self, *, prompt: int, decodes: int, context: int) -> float:
        """Seconds for the next step."""
        chance = 1.0 + self.cost.jitter * (2.0 * self._random.random() - 1.0)
        return self.cost.step(prompt=prompt, decodes=decodes, context=context) * self.slowdown * chance
