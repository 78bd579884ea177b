"""One look at a vLLM server: fetch, parse, upgrade and follow its engines, or one reason why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.fetch import Fetcher
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.engine.upgrade import LoraState, Upgrader
from vllm_observe.errors import Drop, ScrapeError
from vllm_observe.model import Family

__all__ = ["EngineWatch", "Failure", "Look"]


class Look(NamedTuple):
    """What a good scrape gave.

    Attributes:
        at: when, in seconds since the Unix epoch.
        seconds: how long the answer took.
        families: vLLM's families under today's names.
        lora: the LoRA adapters, where vLLM tells of them.
        found: for each signal's key the exposed family that serves it.
        dropped: what of the page is not passed on.
    """

    at: float
    seconds: float
    families: tuple[Family, ...]
    lora: LoraState | None
    found: Mapping[str, str]
    dropped: Mapping[Drop, int]


class Failure(NamedTuple):
    """A scrape that gave nothing, and when, in seconds since the Unix epoch."""

    at: float
    error: ScrapeError


class EngineWatch:
    """Looks at one server, scrape by scrape. One thread looks, any may ask for what was seen.

    Attributes:
        look: the latest good scrape, however old; ``tracker.fresh()`` says whether it speaks for now.
        failure: the last scrape where it failed, ``None`` where it was good.
    """

    def __init__(self, *, fetcher: Fetcher, tracker: EngineTracker, clock: Clock) -> None:
        self.tracker = tracker
        self.look: Look | None = None
        self.failure: Failure | None = None
        self._fetcher = fetcher
        self._parser = ExpositionParser()
        self._upgrader = Upgrader()
        self._clock = clock

    def scrape(self) -> Look:
        """Look once.

        Raises:
            ScrapeError: the scrape gave no engine state; ``failure`` keeps it.
        """
        at = self._clock.wall()
        try:
            fetched = self._fetcher.fetch()
            exposition = self._parser.parse(fetched.body, fetched.content_type)
            upgraded = self._upgrader.upgrade(exposition.families)
        except ScrapeError as error:
            self.failure = Failure(at, error)
            raise
        # The page shows the engine as it was when the answer came, not when it was asked for.
        at = self._clock.wall()
        self.tracker.observe(engine_samples(upgraded.families, at), upgraded.families, at)
        self.failure = None
        self.look = Look(
            at=at,
            seconds=fetched.seconds,
            families=upgraded.families,
            lora=upgraded.lora,
            found=upgraded.found,
            dropped=Counter(exposition.dropped) + Counter(upgraded.dropped),
        )
        return self.look

    def current(self) -> Look | None:
        """Return the latest good scrape where it is recent enough to speak for now."""
        return self.look if self.tracker.fresh() else None

    def close(self) -> None:
        """Give up a scrape under way, and the connection."""
        self._fetcher.close()
