"""How a series goes: levels of a gauge, rates of a counter, one part after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, repeat
from math import isnan

__all__ = ["STEP", "Course", "Page", "counter", "flicker", "gauge"]

#: Seconds between two samples, and between two evaluations of the rules.
STEP = 30


@dataclass(frozen=True)
class Course:
    """A series over time.

    Attributes:
        parts: from which second on, in ascending order, it has which level; a counter: which rate a
            second. ``None`` is no sample, and a stale marker where there was one.
        counts: whether it is a counter, which goes on from where it stands.
        start: a counter's value before its first sample.
        resets: whether a counter begins at 0 again after a gap.
    """

    parts: tuple[tuple[int, float | None], ...]
    counts: bool = False
    start: float = 0.0
    resets: bool = False

    def until(self, end: int) -> Course:
        """Return it with nothing from a second on."""
        return replace(self, parts=(*(part for part in self.parts if part[0] < end), (end, None)))

    def values(self, seconds: int) -> str:
        """Write it in promtool's notation, from second 0 to ``seconds``."""
        ends = chain((since for since, _ in self.parts[1:]), repeat(seconds + STEP))
        words: list[str] = [] if self.parts[0][0] == 0 else [f"_x{self.parts[0][0] // STEP}"]
        value, was_there = self.start, False
        for (since, number), end in zip(self.parts, ends, strict=False):
            samples = (min(end, seconds + STEP) - since) // STEP
            if samples <= 0:
                break
            if number is None:
                words += ["stale"] if was_there else []
                words += [f"_x{samples - was_there}"] if samples > was_there else []
                value = 0.0 if self.resets else value
            elif self.counts:
                step = number * STEP
                # A rate tells of the time since the sample before.
                first = value + step if was_there else value
                words.append(f"{first:.10g}+{step:.10g}x{samples - 1}")
                value = first + step * (samples - 1)
            else:
                words.append(f"{number:.10g}+0x{samples - 1}" if not isnan(number) else "NaN " * samples)
            was_there = number is not None
        return " ".join(words).strip()


#: What Prometheus has scraped: each series by its name with its labels.
Page = dict[str, Course]


def gauge(*levels: float | tuple[int, float | None]) -> Course:
    """A gauge at a level, or at several, each from a second on."""
    return Course(_parts(levels))


def counter(*rates: float | tuple[int, float | None], start: float = 0.0) -> Course:
    """A counter at a rate a second, or at several, each from a second on."""
    return Course(_parts(rates), counts=True, start=start)


def _parts(told: tuple[float | tuple[int, float | None], ...]) -> tuple[tuple[int, float | None], ...]:
    return tuple(part if isinstance(part, tuple) else (0, part) for part in told)


def flicker(one: float, other: float, *, every: int = 3, until: int) -> Course:
    """A gauge that shows the other value in every third sample, or every so many."""
    return gauge(*((at, other if at % (every * STEP) == 0 else one) for at in range(0, until + STEP, STEP)))
