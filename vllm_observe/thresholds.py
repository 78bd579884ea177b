"""Every number that an alert, a board, the terminal or a cause compares with, in one place.

Each says where it comes from. A test holds that no other module compares a signal with a literal.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_observe.model import ServiceClass

__all__ = [
    "ANSWERS_WITHOUT_TOKENS",
    "KV_FULL",
    "KV_NEAR_FULL",
    "PROMPT_LONG_TOKENS",
    "QUEUE_SHARE",
    "SLOTS_EXHAUSTED",
    "SLOTS_NEAR_LIMIT",
    "SLOW_FACTOR",
    "SLOW_FLOOR_S",
    "STALE_AFTER_INTERVALS",
    "STALL_AFTER_S",
    "STEP_FULL",
    "TARGETS",
    "USUAL_MIN_REQUESTS",
    "Targets",
]

#: Running over max_num_seqs at which a warning is due: the brief's "nears max-num-seqs".
SLOTS_NEAR_LIMIT = 0.9
#: Running over max_num_seqs at which no slot is left (the scheduler fills the last one at once).
SLOTS_EXHAUSTED = 0.98

#: KV-cache usage at which a warning is due: the brief's "passes 90 %".
KV_NEAR_FULL = 0.9
#: KV-cache usage from which the next request most likely finds no room.
KV_FULL = 0.95

#: Mean tokens of a step over max_num_batched_tokens from which the step's budget binds.
STEP_FULL = 0.9

#: Seconds with work present and no token, after which an engine is stalled. A first prefill of a
#: million tokens at 5,000 a second takes 200 s and moves no counter meanwhile.
STALL_AFTER_S = 300.0

#: Inference requests answered 2xx since the last token, from which the engine answers without
#: serving. One may be a client that left, three in a row are not.
ANSWERS_WITHOUT_TOKENS = 3

#: Scrape intervals without a good scrape, after which an engine's state is stale, so absent.
STALE_AFTER_INTERVALS = 3

#: A request is slow from this many times its profile's usual duration.
SLOW_FACTOR = 3.0

#: The share of a slow request's time from which one phase is called its cause.
QUEUE_SHARE = 0.3

#: Prompt tokens that no cache held, from which a prompt is called long.
PROMPT_LONG_TOKENS = 4096


class Targets(NamedTuple):
    """What a service class promises, in seconds; ``None`` promises nothing."""

    ttft: float
    tpot: float
    e2e: float | None = None


#: A chat's reader waits 2 to 3 s for a first token and reads about ten tokens a second.
TARGETS = {
    ServiceClass.INTERACTIVE: Targets(ttft=2.5, tpot=0.1),
    ServiceClass.BATCH: Targets(ttft=30.0, tpot=1.0),
}

#: Seconds up to which no request is slow for being over its profile's usual: a person's train of
#: thought holds for about a second, and three times 5 ms is nothing.
SLOW_FLOOR_S = 1.0

#: Requests of a profile from which their median is called usual: of 20, a burst of 9 cannot move it.
USUAL_MIN_REQUESTS = 20
