"""What clients do, as data: how they talk, how often they come, how long they wait, when they try again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

__all__ = [
    "ASSISTANT",
    "CODER",
    "PROFILES",
    "SUMMARIZER",
    "Manners",
    "Profile",
    "Rate",
    "Sessions",
    "Source",
    "Spread",
    "Workers",
    "Workload",
]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A log-normal amount: tokens, seconds or turns. Half of all are over the median.

    ``sigma`` is the standard deviation of its logarithm: 0 is always the median, 1 spreads the middle
    two thirds from a third of it to three times it.
    """

    median: float
    sigma: float = 0.0
    least: float = 0.0
    most: float = math.inf

    def draw(self, chance: Random) -> float:
        """Return one such amount."""
        return min(max(self.median * math.exp(self.sigma * chance.gauss(0.0, 1.0)), self.least), self.most)

    def whole(self, chance: Random) -> int:
        """Return one such amount as a whole number, at least 1."""
        return max(1, round(self.draw(chance)))


_NEVER = Spread(median=math.inf)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A use of the model. Every turn's prompt holds the turns before it, so a prefix cache matters.

    Attributes:
        system_tokens: what all sessions of the profile begin with.
        context: tokens that a session brings along: a document, a code base.
        question: tokens that each turn adds.
        output: tokens of an answer, were it never cut.
        max_tokens: where an answer is cut.
        turns: how many turns a session has.
        think: seconds from an answer to the next turn.
    """

    name: str
    system_tokens: int
    context: Spread
    question: Spread
    output: Spread
    max_tokens: int
    turns: Spread
    think: Spread
    stream: bool = True
    path: str = "/v1/chat/completions"


ASSISTANT = Profile(
    name="assistant",
    system_tokens=400,
    context=Spread(median=60, sigma=0.8, most=1000),
    question=Spread(median=80, sigma=0.9, most=2000),
    output=Spread(median=180, sigma=0.7, most=1200),
    max_tokens=2048,
    turns=Spread(median=3, sigma=0.7, most=15),
    think=Spread(median=15, sigma=0.7, least=1, most=120),
)
CODER = Profile(
    name="coder",
    system_tokens=1200,
    context=Spread(median=2500, sigma=0.6, most=8000),
    question=Spread(median=250, sigma=0.8, most=3000),
    output=Spread(median=350, sigma=0.6, most=1800),
    max_tokens=4096,
    turns=Spread(median=4, sigma=0.6, most=15),
    think=Spread(median=20, sigma=0.8, least=1, most=180),
)
SUMMARIZER = Profile(
    name="summarizer",
    system_tokens=200,
    context=Spread(median=3000, sigma=0.5, most=12000),
    question=Spread(median=20),
    output=Spread(median=220, sigma=0.4, most=600),
    max_tokens=1024,
    turns=Spread(median=1),
    think=Spread(median=5, least=1),
    stream=False,
)
PROFILES = {profile.name: profile for profile in (ASSISTANT, CODER, SUMMARIZER)}


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How a client behaves while it waits.

    Attributes:
        timeout_s: after how long it gives a request up.
        retries: how often it sends one again that was given up, refused or failed, with the same id.
        backoff_s: seconds before the first retry; each further one waits twice as long.
        leaving: the share of requests that a person leaves before the end.
        patience: after how many seconds.
        oversized: the share of requests that are longer than any model's context.
    """

    timeout_s: float = 300.0
    retries: int = 0
    backoff_s: float = 1.0
    leaving: float = 0.0
    patience: Spread = _NEVER
    oversized: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How often something begins: ``per_s``, and so much of it more and less over a day.

    ``peak_s`` is when the day is at its busiest, in seconds on the simulation's clock.
    """

    per_s: float
    swing: float = 0.0
    day_s: float = 86400.0
    peak_s: float = 43200.0

    @property
    def most(self) -> float:
        """The rate at the busiest time."""
        return self.per_s * (1.0 + self.swing)

    def at(self, when: float) -> float:
        """Return the rate at a time, per second."""
        return self.per_s * (1.0 + self.swing * math.cos(2 * math.pi * (when - self.peak_s) / self.day_s))


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """Sessions that begin by chance, whatever became of those before them: people.

    A session that has begun by ``until`` goes on after it. ``outside_s`` is what each request spends in
    the app and on the network.
    """

    name: str
    client: str
    profile: Profile
    rate: Rate
    manners: Manners = Manners()
    since: float = 0.0
    until: float = math.inf
    outside_s: float = 0.01


@dataclass(frozen=True, kw_only=True)
class Workers:
    """So many sessions at a time, each followed by the next at once: a batch job, a script that runs wild.

    Attributes:
        at_once: how many sessions go on together.
        sessions: how many there are in all.
        one_session: whether all of them say that they are the same one.
        until: when no further request is sent.
    """

    name: str
    client: str
    profile: Profile
    at_once: int
    sessions: float = math.inf
    one_session: bool = False
    manners: Manners = Manners()
    since: float = 0.0
    until: float = math.inf
    outside_s: float = 0.01


Source = Sessions | Workers
Workload = tuple[Source, ...]
