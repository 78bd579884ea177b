"""The counters and histograms of one engine, since its start."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from vllm_observe.signals import BY_KEY
from vllm_observe.sim.pages import bounds_ever
from vllm_observe.sim.requests import Ended

__all__ = ["Histogram", "Tally", "histogram"]


class Histogram:
    """Observations between bounds: fine enough for the buckets of every release."""

    __slots__ = ("_bounds", "_counts", "count", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.count = 0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times."""
        self._counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times
        self.count += times

    def up_to(self, bounds: Sequence[float]) -> list[int]:
        """Return how many values are at most each of some of its bounds."""
        totals, total = {}, 0
        for bound, counted in zip(self._bounds, self._counts, strict=False):
            total += counted
            totals[bound] = total
        return [totals[bound] for bound in bounds]


def histogram(key: str, max_model_len: int = 0) -> Histogram:
    """Make the histogram of a signal, by its key; the bounds of some depend on the longest request."""
    return Histogram(bounds_ever(BY_KEY[key].name, max_model_len))


class Tally:
    """What vLLM counts, and when: a request whose client left is in no histogram of requests.

    Attributes:
        computed_step_tokens: as ``step_tokens``, but without cached prompt tokens, as vLLM counts
            from 0.23.0 on.
    """

    def __init__(self, max_model_len: int) -> None:
        def of(key: str) -> Histogram:
            return histogram(key, max_model_len)

        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generation_tokens = 0
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0
        self.finished: Counter[str] = Counter()
        self.step_tokens, self.computed_step_tokens = of("step_tokens"), of("step_tokens")
        self.ttft, self.itl, self.tpot, self.e2e = of("ttft"), of("itl"), of("tpot"), of("e2e")
        self.queue_time, self.prefill_time = of("queue_time"), of("prefill_time")
        self.decode_time, self.inference_time = of("decode_time"), of("inference_time")
        self.request_prompt_tokens = of("request_prompt_tokens")
        self.request_generation_tokens = of("request_generation_tokens")
        self.request_prefill_tokens = of("request_prefill_tokens")
        self.request_preemptions = of("request_preemptions")
        self.request_max_tokens = of("request_max_tokens")
        self.request_max_generation_tokens = of("request_max_generation_tokens")
        self.request_n = of("request_n")

    def step(self, prompt: int, cached: int, generated: int) -> None:
        """Count the tokens that a step brought: of prompts that it ended, and of output."""
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self.generation_tokens += generated
        if generated:  # a step that only computed a part of a prompt is not counted
            self.step_tokens.observe(prompt + generated)
            self.computed_step_tokens.observe(prompt - cached + generated)

    def request(self, ended: Ended) -> None:
        """Count a request that the engine brought to its end."""
        self.finished[ended.end.value] += 1
        queue, prefill, decode = ended.queue_s, ended.prefill_s, ended.decode_s
        if ended.e2e_s is None or queue is None or prefill is None or decode is None:
            raise ValueError("a request that ended well went through every phase")
        self.e2e.observe(ended.e2e_s)
        self.queue_time.observe(queue)
        self.prefill_time.observe(prefill)
        self.decode_time.observe(decode)
        self.inference_time.observe(prefill + decode)
        self.tpot.observe(ended.tpot_s or 0.0)
        self.request_prompt_tokens.observe(ended.prompt_tokens)
        self.request_generation_tokens.observe(ended.output_tokens)
        self.request_prefill_tokens.observe(ended.prompt_tokens - ended.cached_tokens)
        self.request_preemptions.observe(ended.preemptions)
        self.request_max_generation_tokens.observe(ended.output_tokens)
        self.request_n.observe(1)
        if ended.arrival.max_tokens is not None:
            self.request_max_tokens.observe(ended.arrival.max_tokens)
