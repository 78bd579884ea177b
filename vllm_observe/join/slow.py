"""Why a request was slow.

An engine record splits the request's time into phases, and the longest phase is the cause; the engine's
samples of that time say what a queued request waited for. Without an engine record there are the time to
the first token, the tokens, and those samples: enough to tell a queue from a long answer, but often not
a long prompt from a slow network. What cannot be decided is ``unknown``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vllm_observe.join.attempts import engine_start
from vllm_observe.join.pressure import LimitsFor, Pressure, pressure
from vllm_observe.join.slowness import Measure, Slowness, in_seconds
from vllm_observe.join.surroundings import Surroundings, at_the_end, started_at
from vllm_observe.join.targets import engine_tpot_s, tpot_s, ttft_s
from vllm_observe.join.usual import Usual
from vllm_observe.model import BindingLimit, Cause, EngineSample, Evidence, JoinedRequest
from vllm_observe.thresholds import PROMPT_LONG_TOKENS, QUEUE_SHARE, Targets

__all__ = ["SlowRequest"]

_QUEUES = {
    BindingLimit.SLOTS: Cause.QUEUE_SLOTS,
    BindingLimit.KV: Cause.QUEUE_KV,
    BindingLimit.TOKEN_BUDGET: Cause.QUEUE_BUDGET,
    BindingLimit.DEFERRED: Cause.QUEUE_DEFERRED,
}
#: The share of a slow request's time in which its engine must have stood still for that to be why.
_STILL_SHARE = 0.5


class SlowRequest(NamedTuple):
    """A slow request with everything that may explain it."""

    request: JoinedRequest
    slow: Slowness
    around: Surroundings
    usual: Usual | None
    targets: Targets
    limits_for: LimitsFor

    def explain(self) -> Evidence:
        """Name the cause that explains most of the time."""
        still = self.around.stood_still(self.request.ended_at)
        if still >= _STILL_SHARE * self.slow.seconds and self.slow.measure is not Measure.TPOT:
            text = f"the engine made no token for {in_seconds(still)} of {self._total()}"
            return Evidence(Cause.ENGINE_ERROR, text)
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
        """Blame the longest phase; a queue from a smaller share on, where the longest is a usual one."""
        total = self.slow.seconds
        phases = {"queue": queue, "prefill": self.request.phases.prefill}
        if self.slow.measure is Measure.E2E:
            phases["decode"] = self.request.phases.decode
        known = {name: seconds for name, seconds in phases.items() if seconds is not None}
        longest = max(known, key=lambda name: known[name])
        rest = total - sum(known.values())
        if longest == "decode" and self._pace_is_over_target():
            return self._decode()
        if longest == "prefill" and known["prefill"] >= rest and self._may_be_long():
            return self._prefill(known["prefill"])
        if queue >= QUEUE_SHARE * total or (longest == "queue" and queue >= rest):
            return self._queued(queue)
        if rest > known[longest]:
            if len(known) < len(phases):
                return self._unknown("the engine's record tells too little")
            text = f"{in_seconds(rest)} of {self._total()} passed outside the engine"
            return Evidence(Cause.OUTSIDE_ENGINE, text)
        return self._prefill(known["prefill"]) if longest == "prefill" else self._decode()

    def _queued(self, queue: float) -> Evidence:
        """Name what a request waited for that certainly waited."""
        ends = [
            engine_start(part) + part.queue_s for part in self.request.engines if part.queue_s is not None
        ]
        wait = self._pressure_until(max(ends), waited=True)
        if wait.limit not in _QUEUES or not wait.sure:  # too short a wait for a sample of its own
            longer = self._pressure_until(self.request.ended_at, waited=True)
            wait = longer if longer.sure or wait.limit not in _QUEUES else wait
        if wait.limit not in _QUEUES:  # so short a request that no sample saw anybody wait
            last = self._pressure_of(at_the_end(self.request), waited=True)
            wait = last if last.limit in _QUEUES else wait
        return Evidence(_cause_of(wait), f"waited {in_seconds(queue)} of {self._total()}; {wait.text}")

    def _prefill(self, seconds: float) -> Evidence:
        preemptions = self._preemptions()
        prompt = f"the prompt took {in_seconds(seconds)} of {self._total()}"
        if preemptions and not self._may_be_long():
            return Evidence(Cause.PREEMPTED, f"preempted {_times(preemptions)}; {prompt}")
        tokens, cached = self.request.prompt_tokens, self.request.cached_tokens
        if tokens is None:
            return Evidence(Cause.PREFILL_LONG, prompt)
        if cached is None:
            return Evidence(Cause.PREFILL_LONG, f"{prompt}; {self._cache_not_known()}")
        uncached = max(0, tokens - cached)
        return Evidence(Cause.PREFILL_LONG, f"{prompt}; no cache held {uncached} of its {tokens} tokens")

    # --- Without one

    def _first_token(self, seconds: float) -> Evidence:
        """Explain the time to the first token by the engine's samples of it."""
        wait = self._pressure(seconds)
        if wait.limit is BindingLimit.TOKEN_BUDGET and self._may_be_long():
            return self._prefill(seconds)
        if wait.limit in _QUEUES:
            return self._probably_queued(wait, seconds)
        if wait.limit is not BindingLimit.NONE:
            return self._unknown(wait.text)
        evidence = self._without_queue(wait, seconds)
        if evidence is None and self._is_long() is None:
            return self._unknown(f"{wait.text}; {self._cache_not_known()}")
        return evidence or self._outside(wait)

    def _streamed(self, first: float) -> Evidence:
        """Explain a duration that the first token divides."""
        wait, after = self._pressure(first), self.slow.seconds - first
        if after > first and self._pace_is_over_target():
            return self._decode()
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
        evidence = self._without_queue(wait, seconds) if wait.limit is BindingLimit.NONE else None
        return evidence or self._unknown(wait.text)

    def _without_queue(self, wait: Pressure, seconds: float) -> Evidence | None:
        """Explain a time in which the engine had no queue, as far as its samples and the prompt can."""
        if self._is_long():
            return self._prefill(seconds)
        meanwhile = self.around.meanwhile(started_at(self.request) + seconds)
        if all(sample.running == 0 for sample in meanwhile):
            return self._outside(wait)
        return None

    def _is_long(self) -> bool | None:
        """Say whether the prompt had many tokens to compute; ``None`` where a cache may have held them."""
        if self.request.prompt_tokens is None:
            return None
        if not self._may_be_long():
            return False
        return None if self.request.cached_tokens is None else True

    def _may_be_long(self) -> bool:
        """Say whether the prompt is long, less the tokens of which it is known that a cache held them."""
        return (self.request.prompt_tokens or 0) - (self.request.cached_tokens or 0) >= PROMPT_LONG_TOKENS

    def _cache_not_known(self) -> str:
        tokens = self.request.prompt_tokens
        if tokens is None:
            return "the prompt's length is not known"
        return f"how many of its {tokens} prompt tokens a cache held is not known"

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
        if self._pace_is_over_target():
            return True  # however many tokens there are, and whatever has become usual
        if self.usual is not None:
            more, slower = _ratio(tokens, self.usual.completion_tokens), _ratio(rate, self.usual.tpot_s)
            if more is not None and slower is not None:
                return slower > more
        return self._preemptions() > 0

    def _pace_is_over_target(self) -> bool:
        rate = tpot_s(self.request)
        return rate is not None and rate > self.targets.tpot

    def _pressure_until(self, when: float, *, waited: bool = False) -> Pressure:
        return self._pressure_of(self.around.until(when), waited=waited)

    def _pressure_of(self, samples: Sequence[EngineSample], *, waited: bool) -> Pressure:
        return pressure(samples, self.limits_for, since=started_at(self.request), waited=waited)

    def _total(self) -> str:
        duration = self.request.duration_s
        return in_seconds(self.slow.seconds if duration is None else duration)

    def _preemptions(self) -> int:
        return sum(part.preemptions or 0 for part in self.request.engines)

    def _unknown(self, why: str) -> Evidence:
        return Evidence(Cause.UNKNOWN, f"{self.slow.text}; {why}")


def _cause_of(wait: Pressure) -> Cause:
    return Cause.UNKNOWN if wait.limit is None else _QUEUES.get(wait.limit, Cause.UNKNOWN)


def _ratio(value: float | None, usual: float | None) -> float | None:
    return value / usual if value is not None and usual else None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
