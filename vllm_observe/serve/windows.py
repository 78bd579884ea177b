"""What a server did between two looks; since its start where there is only one.

A figure since the start is an average over hours or weeks and says nothing of now, so each figure
here carries its window, and a rate has none without two looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Annotated

import msgspec

from vllm_observe.engine.quantiles import Distribution, Quantile, distribution
from vllm_observe.engine.restarts import RestartWatch
from vllm_observe.engine.sampling import engine_samples, increase, known
from vllm_observe.engine.watch import Look
from vllm_observe.model import EngineSample, Family
from vllm_observe.signals import BY_KEY

__all__ = [
    "LATENCIES",
    "Amount",
    "Latency",
    "LookBack",
    "QuantileFigure",
    "Throughput",
    "WindowedRatio",
    "latencies",
    "prefix_cache_hit_ratio",
    "same_process",
    "throughput",
]

#: The durations that are shown, by the keys of their signals: what users feel, then its phases.
LATENCIES = ("ttft", "itl", "tpot", "e2e", "queue_time", "prefill_time", "decode_time")


#: A number of things, or seconds: what is read from another program is refused where it is negative.
Amount = Annotated[float, msgspec.Meta(ge=0)]


class QuantileFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile in seconds; with ``bound`` set it is only known to lie ``below`` or ``above`` that."""

    value_s: Amount
    bound: str | None = None


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long something took. ``window_s`` is ``None`` where the figures run since vLLM's start."""

    signal: str
    window_s: Amount | None = None
    count: Amount = 0.0
    mean_s: Amount | None = None
    p50: QuantileFigure | None = None
    p95: QuantileFigure | None = None
    p99: QuantileFigure | None = None


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """What a server got done, all its engines together, for each second of the window."""

    window_s: Amount
    prompt_tokens_per_s: Amount | None = None
    generation_tokens_per_s: Amount | None = None
    requests_per_s: Amount | None = None
    preemptions_per_s: Amount | None = None


class WindowedRatio(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio 0..1. ``window_s`` is ``None`` where it runs since vLLM's start."""

    value: Amount
    window_s: Amount | None = None


class LookBack:
    """Keeps a few looks, so that there always is one of about so long ago to compare with.

    Args:
        seconds: how long ago. A younger one serves until there is one as old.
        every: seconds between two that are kept, since each holds a whole page.
    """

    def __init__(self, *, seconds: float = 60.0, every: float = 5.0) -> None:
        self._seconds = seconds
        self._every = every
        self._kept: deque[Look] = deque()

    def add(self, look: Look) -> None:
        """Take a good look, the latest so far."""
        if self._kept and same_process(self._kept[-1], look) is None:
            self._kept.clear()  # no window spans a restart, or a clock that was set back
        if not self._kept or look.at >= self._kept[-1].at + self._every:
            self._kept.append(look)
        while len(self._kept) > 1 and self._kept[1].at <= look.at - self._seconds:
            self._kept.popleft()

    @property
    def earlier(self) -> Look | None:
        """The look to compare the latest with."""
        return self._kept[0] if self._kept else None


def same_process(earlier: Look | None, look: Look) -> Look | None:
    """Return the earlier look where a window can begin with it; ``None`` where it is of another process."""
    if earlier is None or earlier.at >= look.at:
        return None
    restarts = RestartWatch()
    restarts.observe(earlier.families)
    return None if restarts.observe(look.families) else earlier


def latencies(look: Look, earlier: Look | None) -> tuple[Latency, ...]:
    """Return the durations that a server exposes, each since an earlier look where there is one.

    Args:
        look: the latest look.
        earlier: from :func:`same_process`.
    """
    found = []
    for signal in LATENCIES:
        name = BY_KEY[signal].name
        now = distribution(look.families, name)
        if now is None:
            continue
        then = distribution(earlier.families, name) if earlier is not None else None
        window = now.since(then) if then is not None else None
        if earlier is not None and window is not None:
            found.append(_latency(signal, window, look.at - earlier.at))
        else:
            found.append(_latency(signal, now, None))
    return tuple(found)


def _latency(signal: str, seen: Distribution, window_s: float | None) -> Latency:
    return Latency(
        signal=signal,
        window_s=window_s,
        count=known(seen.count) or 0.0,
        mean_s=None if seen.mean is None else known(seen.mean),
        p50=_figure(seen.quantile(0.5)),
        p95=_figure(seen.quantile(0.95)),
        p99=_figure(seen.quantile(0.99)),
    )


def _figure(quantile: Quantile | None) -> QuantileFigure | None:
    """Leave out what no duration can be: a page can hold any bounds and counts."""
    if quantile is None or known(quantile.value) is None:
        return None
    return QuantileFigure(value_s=quantile.value, bound=quantile.bound)


def throughput(look: Look, earlier: Look | None) -> Throughput | None:
    """Return what a server got done since an earlier look; ``None`` without one.

    Args:
        look: the latest look.
        earlier: from :func:`same_process`.
    """
    if earlier is None:
        return None
    window = look.at - earlier.at
    before = {sample.key: sample for sample in engine_samples(earlier.families, earlier.at)}
    pairs = [(before.get(now.key), now) for now in engine_samples(look.families, look.at)]

    def rate(counter: str) -> float | None:
        rises = [_rise(then, now, counter) for then, now in pairs]
        told = [rise for rise in rises if rise is not None]
        # An engine that does not tell would make the sum of the others look like the server's.
        return known(sum(told) / window) if told and len(told) == len(rises) else None

    return Throughput(
        window_s=window,
        prompt_tokens_per_s=rate("prompt_tokens"),
        generation_tokens_per_s=rate("generation_tokens"),
        requests_per_s=rate("finished"),
        preemptions_per_s=rate("preemptions"),
    )


def _rise(then: EngineSample | None, now: EngineSample, counter: str) -> float | None:
    return increase(getattr(then, counter), getattr(now, counter)) if then is not None else None


def prefix_cache_hit_ratio(look: Look, earlier: Look | None) -> WindowedRatio | None:
    """Return the share of looked-up prompt tokens that the prefix cache held.

    Since the earlier look; since vLLM's start where nothing was looked up meanwhile.

    Args:
        look: the latest look.
        earlier: from :func:`same_process`.
    """
    queries, hits = _total(look.families, "prefix_queries"), _total(look.families, "prefix_hits")
    if earlier is not None:
        asked = increase(_total(earlier.families, "prefix_queries"), queries)
        found = increase(_total(earlier.families, "prefix_hits"), hits)
        ratio = _share(found, asked)
        if ratio is not None:
            return WindowedRatio(value=ratio, window_s=look.at - earlier.at)
    ratio = _share(hits, queries)
    return WindowedRatio(value=ratio) if ratio is not None else None


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole and part <= whole else None


def _total(families: Iterable[Family], key: str) -> float | None:
    """Add up a counter over all engines; ``None`` where it is not exposed or no number of things."""
    values = [
        sample.value for family in families if family.name == BY_KEY[key].name for sample in family.samples
    ]
    return known(sum(values)) if values else None
