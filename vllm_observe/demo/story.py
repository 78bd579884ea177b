"""The recorded vLLM's requests, as the app in front of it would log them.

Twelve requests ended in the second between the two recorded pages. The app had prompts and outputs of
three lengths each; how many of each were among the twelve, and how long they had waited, follows from
what vLLM's histograms gained in it. The log tells of such twelve every second, in ever another order.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.demo.recorded import MODEL

__all__ = ["IN_FLIGHT", "OUTPUT_TOKENS", "PROMPT_TOKENS", "QUEUE_S", "Ended", "ended_requests", "write_log"]

#: Requests that the app kept in flight.
IN_FLIGHT = 24

PROMPT_TOKENS = (68,) * 6 + (418,) * 4 + (1518,) * 2
OUTPUT_TOKENS = (10,) * 5 + (100,) * 3 + (400,) * 4
QUEUE_S = (1.2, 1.6, 1.7, 1.9, 2.02, 2.05, 2.1, 2.15, 2.2, 2.22, 2.25, 2.3)
#: The twelve's mean, and that of their time for an output token after the first.
_PREFILL_S = 0.0102
_TOKEN_S = 0.006

_PROFILES = {68: "assistant", 418: "coder", 1518: "summarizer"}
_SESSIONS = 7

#: One log line in so many is of a request that vLLM's counters of finished requests leave out.
_UNCOUNTED = 40
_REFUSED = {"status": 400, "outcome": "error", "error": "BadRequestError", "duration_s": 0.004}
_LEFT = {"status": 200, "outcome": "abort", "duration_s": 1.0}


class Ended(NamedTuple):
    """A request that ended so many seconds after the load began, and its line but for the time."""

    at: float
    record: dict[str, Any]


def ended_requests(seed: int = 0) -> Iterator[Ended]:
    """Tell of the requests in the order of their ends, without end.

    A load that has just begun has ended no request that takes longer, so the first few are left out.
    """
    chooser = random.Random(seed)  # noqa: S311  # a story that is the same each time, no secret
    uncounted = cycle((_REFUSED, _LEFT))
    number = 0
    for at, served in _served(chooser):
        if served["duration_s"] > at:
            continue
        ends = [served] if (number + 2) % _UNCOUNTED else [served, next(uncounted)]
        for end in ends:
            yield Ended(at, _names(number, chooser) | end)
            number += 1


def _served(chooser: random.Random) -> Iterator[tuple[float, dict[str, Any]]]:
    each = len(QUEUE_S)
    second = 0
    while True:
        shuffled = [chooser.sample(deck, each) for deck in (PROMPT_TOKENS, OUTPUT_TOKENS, QUEUE_S)]
        for place, (prompt, output, queue) in enumerate(zip(*shuffled, strict=True)):
            first = queue + _PREFILL_S
            yield (
                second + (place + chooser.random()) / each,
                {
                    "profile": _PROFILES[int(prompt)],
                    "status": 200,
                    "outcome": "ok",
                    "duration_s": round(first + (output - 1) * _TOKEN_S, 4),
                    "ttft_s": round(first, 4),
                    "prompt_tokens": prompt,
                    "completion_tokens": output,
                },
            )
        second += 1


def _names(number: int, chooser: random.Random) -> dict[str, Any]:
    return {
        "request_id": f"demo-{number}",
        "session_id": f"user-{number % _SESSIONS}",
        "profile": chooser.choice(list(_PROFILES.values())),
        "model": MODEL,
        "path": "/v1/chat/completions",
        "stream": True,
    }


def write_log(path: Path, *, load_at: float, clock: Clock, stop: threading.Event) -> None:
    """Append each request's line when it ends, until ``stop`` is set.

    Args:
        path: the log.
        load_at: when the load begins, on the monotonic clock.
        clock: tells when a request ends.
        stop: ends the writing.
    """
    with path.open("a", encoding="utf-8") as log:
        for at, record in ended_requests():
            if clock.wait(stop, max(0.0, load_at + at - clock.monotonic())):
                return
            log.write(json.dumps({"ts": round(clock.wall(), 3), **record}) + "\n")
            log.flush()
