"""Why a request was slow.

An engine record splits its time into phases, and the phase that took most of it is to blame; why
others had its place is told by the engine's samples of that time. Without an engine record there are
the time to the first token, the tokens, and those samples: enough to tell a queue from a long
answer, and often not to tell a long prompt from a slow network. What cannot be told is ``unknown``.
"""

from __future__ import annotations

from typing import NamedTuple

from vllm_observe.join.attempts import engine_start
from vllm_observe.join.pressure import LimitsFor, Pressure, pressure
from vllm_observe.join.slowness import Measure, Slowness, in_seconds
from vllm_observe.join.surroundings import Surroundings, started_at
from vllm_observe.join.targets import engine_tpot_s, tpot_s, ttft_s
from vllm_observe.join.usual import Usual
from vllm_observe.model import BindingLimit, Cause, Evidence, JoinedRequest
from vllm_observe.thresholds import PROMPT_LONG_TOKENS, QUEUE_SHARE, Targets

__all__ = ["SlowRequest"]

_QUEUES = {BindingLimit.SLOTS: Cause.QUEUE_SLOTS, BindingLimit.KV: Cause.QUEUE_KV}


class SlowRequest(NamedTuple):
    """A slow request with all that may tell why."""

    request: JoinedRequest
    slow: Slowness
    around: Surroundings
    usual: Usual | None
    targets: Targets
    limits_for: LimitsFor

    def explain(self) -> Evidence:
        """Name the cause that explains most of the time."""
        if self.slow.measure is Measure.TPOT:
            return self._decode()
        if self.request.phases.queue is not None:
            return self._by_phases(self.request.phases.queue)
        if self.slow.measure is Measure.TTFT:
            return self._first_token(self.slow.seconds)
        first = ttft_s(self.request)
        return self._at_once() if first is None else self._streamed(first)

    # --- With an engine record

    def _by_phases(self, queue: float) -> Evidence:
        """Blame the longest phase, but a queue from a smaller share on."""
        total, told = self.slow.seconds, self.request.phases
        phases = {"queue": queue, "prefill": told.prefill}
        if self.slow.measure is Measure.E2E:
            phases["decode"] = told.decode
        known = {name: seconds for name, seconds in phases.items() if seconds is not None}
        longest = max(known, key=lambda name: known[name])
        rest = total - sum(known.values())
        if queue >= QUEUE_SHARE * total or (longest == "queue" and queue >= rest):
            return self._queued(queue)
        if rest > known[longest]:
            if len(known) < len(phases):
                return self._unknown("the engine's record tells too little")
            text = f"{in_seconds(rest)} of {self._total()} passed outside the engine"
            return Evidence(Cause.OUTSIDE_ENGINE, text)
        return self._prefill(known["prefill"]) if longest == "prefill" else self._decode()

    def _queued(self, queue: float) -> Evidence:
        """Say what a request that certainly waited has waited for."""
        ends = [
            engine_start(part) + part.queue_s for part in self.request.engines if part.queue_s is not None
        ]
        wait = self._pressure_until(max(ends), waited=True)
        if wait.limit not in _QUEUES:  # too short a wait for a sample of its own
            wait = self._pressure_until(self.request.ended_at, waited=True)
        return Evidence(_cause_of(wait), f"waited {in_seconds(queue)} of {self._total()}; {wait.text}")

    def _prefill(self, seconds: float) -> Evidence:
        preemptions = self._preemptions()
        prompt = f"the prompt took {in_seconds(seconds)} of {self._total()}"
        uncached = _uncached_tokens(self.request)
        if preemptions and (uncached is None or uncached < PROMPT_LONG_TOKENS):
            return Evidence(Cause.PREEMPTED, f"preempted {_times(preemptions)}; {prompt}")
        if uncached is not None:
            prompt += f"; no cache held {uncached} of its {self.request.prompt_tokens} tokens"
        return Evidence(Cause.PREFILL_LONG, prompt)

    # --- Without one

    def _first_token(self, seconds: float) -> Evidence:
        """Explain the time to the first token by the engine's samples of it."""
        wait = self._pressure(seconds)
        if wait.limit in _QUEUES:
            return self._probably_queued(wait, seconds)
        if wait.limit is not BindingLimit.NONE:
            return self._unknown(wait.text)
        told = self._without_queue(wait, seconds)
        if told is None and self.request.prompt_tokens is None:
            return self._unknown(f"{wait.text}; the prompt's length is not known")
        return told or self._outside(wait)

    def _streamed(self, first: float) -> Evidence:
        """Explain a duration that the first token divides."""
        wait, after = self._pressure(first), self.slow.seconds - first
        if wait.limit in _QUEUES and first >= QUEUE_SHARE * self.slow.seconds:
            return self._probably_queued(wait, first)
        return self._first_token(first) if first > after else self._decode()

    def _at_once(self) -> Evidence:
        """Explain a duration of which nothing is known within."""
        tokens, seconds = self.request.completion_tokens, self.slow.seconds
        if self.usual is not None:
            more = _ratio(tokens, self.usual.completion_tokens)
            longer = _ratio(seconds, self.usual.duration_s)
            # The number of tokens explains more than the time for each: more >= longer / more.
            if more is not None and longer is not None and more * more >= longer:
                text = f"{tokens} output tokens; usual are {self.usual.completion_tokens:g}"
                return Evidence(Cause.DECODE_LONG, text)
        wait = self._pressure(seconds)
        if wait.limit in _QUEUES:
            return self._probably_queued(wait, seconds)
        if tokens and seconds / tokens <= self.targets.tpot:
            text = f"{tokens} output tokens, one in {in_seconds(seconds / tokens)}"
            return Evidence(Cause.DECODE_LONG, text)
        told = self._without_queue(wait, seconds) if wait.limit is BindingLimit.NONE else None
        return told or self._unknown(wait.text)

    def _without_queue(self, wait: Pressure, seconds: float) -> Evidence | None:
        """Explain a time in which the engine had no queue, as far as its samples and the prompt can."""
        uncached = _uncached_tokens(self.request)
        if uncached is not None and uncached >= PROMPT_LONG_TOKENS:
            return self._prefill(seconds)
        meanwhile = self.around.meanwhile(started_at(self.request) + seconds)
        if all(sample.running == 0 for sample in meanwhile):
            return self._outside(wait)
        return None

    def _outside(self, wait: Pressure) -> Evidence:
        return Evidence(Cause.OUTSIDE_ENGINE, f"{self.slow.text}; {wait.text}")

    def _pressure(self, seconds: float) -> Pressure:
        """Judge the engine in a request's first seconds."""
        wait = self._pressure_until(started_at(self.request) + seconds)
        if wait.limit is BindingLimit.NONE and not self.around.during:
            return Pressure(None, "no engine sample was taken meanwhile")
        return wait

    def _probably_queued(self, wait: Pressure, seconds: float) -> Evidence:
        text = f"waited up to {in_seconds(seconds)} of {self._total()}; {wait.text}"
        return Evidence(_cause_of(wait), text)

    # --- With or without

    def _decode(self) -> Evidence:
        """Explain the time after the first token: more tokens than usual, or slower ones."""
        tokens, rate, preemptions = self.request.completion_tokens, tpot_s(self.request), self._preemptions()
        if rate is None or tokens is None:
            return self._unknown("how many tokens it decoded is not known")
        pace = f"{tokens} output tokens, one in {in_seconds(rate)}"
        engine_rate = engine_tpot_s(self.request)
        if engine_rate is not None and engine_rate <= self.targets.tpot < rate:
            text = f"{pace}; the engine made one in {in_seconds(engine_rate)}"
            return Evidence(Cause.OUTSIDE_ENGINE, text)
        if not self._too_slow(tokens, rate):
            return Evidence(Cause.DECODE_LONG, pace)
        if preemptions:
            return Evidence(Cause.PREEMPTED, f"preempted {_times(preemptions)}; {pace}")
        return Evidence(Cause.DECODE_SLOW, pace)

    def _too_slow(self, tokens: int, rate: float) -> bool:
        """Say whether it is the pace that made a request slow, not the number of its tokens."""
        if self.slow.measure is Measure.TPOT:
            return True
        if self.usual is not None:
            more, slower = _ratio(tokens, self.usual.completion_tokens), _ratio(rate, self.usual.tpot_s)
            if more is not None and slower is not None:
                return slower > more
        return rate > self.targets.tpot or self._preemptions() > 0

    def _pressure_until(self, when: float, *, waited: bool = False) -> Pressure:
        samples, start = self.around.until(when), started_at(self.request)
        return pressure(samples, self.limits_for, since=start, waited=waited)

    def _total(self) -> str:
        duration = self.request.duration_s
        return in_seconds(self.slow.seconds if duration is None else duration)

    def _preemptions(self) -> int:
        return sum(part.preemptions or 0 for part in self.request.engines)

    def _unknown(self, why: str) -> Evidence:
        return Evidence(Cause.UNKNOWN, f"{self.slow.text}; {why}")


def _cause_of(wait: Pressure) -> Cause:
    return Cause.UNKNOWN if wait.limit is None else _QUEUES.get(wait.limit, Cause.UNKNOWN)


def _uncached_tokens(request: JoinedRequest) -> int | None:
    """Prompt tokens that had to be computed: all of them, where no record tells of a cache."""
    if request.prompt_tokens is None:
        return None
    return max(0, request.prompt_tokens - (request.cached_tokens or 0))


def _ratio(value: float | None, usual: float | None) -> float | None:
    return value / usual if value is not None and usual else None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
