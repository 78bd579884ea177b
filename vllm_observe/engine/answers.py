"""Answers without tokens: a server whose engine is dead and that still answers HTTP 200.

When the engine core dies, some releases answer every request with status 200 and an error in its
body. The gauges read 0 then, so nothing looks stalled: only the answers rise, and no token does.
"""

from __future__ import annotations

from collections.abc import Collection

from vllm_observe.engine.sampling import increase, known, work_present
from vllm_observe.model import EngineKey, EngineSample, Family
from vllm_observe.signals import BY_KEY
from vllm_observe.thresholds import ANSWERS_WITHOUT_TOKENS

__all__ = ["AnswerWatch", "generation_answers"]

_HTTP_REQUESTS = BY_KEY["http_requests"].name

#: The paths on which a good answer holds tokens that an engine made. Embeddings, tokenizing and the
#: lists are not among them.
_GENERATION = frozenset(
    {
        "/generate",
        "/inference/v1/generate",
        "/invocations",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/v1/chat/completions",
        "/v1/chat/completions/batch",
        "/v1/completions",
        "/v1/messages",
        "/v1/responses",
    }
)
#: What vLLM's HTTP metrics call a path for which they know no route. With some releases of FastAPI
#: that is every path, so it may be inference and may be anything else.
_NO_ROUTE = "none"

_MADE = ("prompt_tokens", "generation_tokens", "finished")


def generation_answers(families: Collection[Family]) -> float | None:
    """Return how many requests for generation were answered 2xx since the process started.

    ``None`` where no answer was counted yet, the release counts none (before 0.8) or not by path.
    """
    family = next((family for family in families if family.name == _HTTP_REQUESTS), None)
    if family is None:
        return None
    answered: dict[str, float] = {}
    for series, value, _ in family.samples:
        labels = dict(series.labels)
        # A browser asks with OPTIONS first, and gets a 200 for that too.
        if labels.get("method") == "POST" and labels.get("status", "").startswith("2"):
            handler = labels.get("handler", _NO_ROUTE)
            answered[handler] = answered.get(handler, 0.0) + (known(value) or 0.0)
    counted = [value for handler, value in answered.items() if handler in _GENERATION]
    return None if not counted and answered.get(_NO_ROUTE) else sum(counted)


class AnswerWatch:
    """Counts the answers of one process since its engines last made a token or had work.

    While there is work, answers may be those of clients that left a long queue, and the stall watch
    judges. vLLM counts a request's tokens before its answer, so the answers are counted from the first
    scrape at which the engines rest: what was still on its way out until then is not held against
    them. Counters begin at 0 with the process, so a server that has answered and never counted a
    token is known at the first scrape.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[EngineKey, str], float] = {}
        self._busy = False
        self._answers_then: float | None = 0.0
        self._answers_since: float | None = None

    def observe(self, samples: Collection[EngineSample], families: Collection[Family]) -> None:
        """Take a good scrape."""
        made = {
            (sample.key, name): value
            for sample in samples
            for name in _MADE
            if (value := getattr(sample, name)) is not None
        }
        moved = any(value != self._made.get(counter, 0.0) for counter, value in made.items())
        answers = generation_answers(families)
        was_busy, self._busy = self._busy, moved or any(map(work_present, samples))
        if self._busy or was_busy or self._answers_then is None:
            self._answers_then = answers
        self._made = made
        self._answers_since = increase(self._answers_then, answers) if made else None

    @property
    def without_tokens(self) -> bool | None:
        """Whether the server answers and its engines make nothing; ``None`` where it cannot be judged."""
        return None if self._answers_since is None else self._answers_since >= ANSWERS_WITHOUT_TOKENS
