"""A server that works, rests, restarts and is missed, against a tracker of its engines."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vllm_observe.clock import ManualClock
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.model import Family, Kind, Sample, Series

COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
FIELDS = ("prompt_tokens", "generation_tokens", "finished")
RANKS = st.sampled_from(["0", "1"])
AMOUNTS = st.integers(0, 50)
STALE_AFTER = 15.0


class Server(RuleBasedStateMachine):
    """The model counts a restart where the server was seen before and is another process now."""

    @initialize(dates_itself=st.booleans())
    def start(self, dates_itself: bool) -> None:
        self.clock = ManualClock()
        self.tracker = EngineTracker(clock=self.clock, stall_after=60.0, stale_after=STALE_AFTER)
        self.dates_itself = dates_itself  # with several API processes a server does not
        self.process = 0
        self.scraped_process: int | None = None
        self.exposed: dict[tuple[str, str], int] = {}
        self.restarts = 0
        self.last_good: float | None = None
        self._begin()

    def _begin(self) -> None:
        self.made = {(name, rank): 0 for name in COUNTERS for rank in "01"}

    @rule(rank=RANKS, prompt=AMOUNTS, generation=AMOUNTS)
    def work(self, rank: str, prompt: int, generation: int) -> None:
        self.made[COUNTERS[0], rank] += prompt
        self.made[COUNTERS[1], rank] += generation

    @rule()
    def restart(self) -> None:
        self.process += 1
        self._begin()

    @rule(seconds=st.sampled_from([1.0, 5.0, 14.0, 15.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(hidden=st.sets(st.tuples(st.sampled_from(COUNTERS), RANKS), max_size=4))
    def scrape(self, hidden: set[tuple[str, str]]) -> None:
        shown = {key: value for key, value in self.made.items() if key not in hidden}
        # Without a start time a restart shows only in a counter that is lower than it was.
        if self.dates_itself:
            restarted = self.scraped_process not in (None, self.process)
        else:
            restarted = any(value < self.exposed.get(key, 0) for key, value in shown.items())
        if restarted:
            self.restarts += 1
            self.exposed = {}
        self.exposed |= shown
        self.scraped_process = self.process
        self.last_good = self.clock.monotonic()
        found = self._families(shown)
        self.tracker.observe(engine_samples(found, self.clock.wall()), found, self.clock.wall())

    def _families(self, shown: dict[tuple[str, str], int]) -> list[Family]:
        found = [
            Family(
                name,
                Kind.COUNTER,
                "",
                [Sample(_series(name, rank), float(v)) for (n, rank), v in shown.items() if n == name],
            )
            for name in COUNTERS
        ]
        gauge = "vllm:num_requests_running"
        found.append(Family(gauge, Kind.GAUGE, "", [Sample(_series(gauge, rank), 1.0) for rank in "01"]))
        if self.dates_itself:
            start = "process_start_time_seconds"
            found.append(Family(start, Kind.GAUGE, "", [Sample(Series(start), 1000.0 + self.process)]))
        return found

    @invariant()
    def each_restart_that_shows_is_counted_once(self) -> None:
        assert self.tracker.restarts == self.restarts

    @invariant()
    def no_counter_ever_falls_from_a_sample_to_the_next(self) -> None:
        for view in self.tracker.engines():
            if view.previous is not None:
                for field in FIELDS:
                    before, now = getattr(view.previous, field), getattr(view.sample, field)
                    assert before is None or now is None or now >= before

    @invariant()
    def engines_are_shown_exactly_while_the_last_good_scrape_is_fresh(self) -> None:
        fresh = self.last_good is not None and self.clock.monotonic() - self.last_good < STALE_AFTER
        assert [view.sample.key.engine for view in self.tracker.engines()] == (["0", "1"] if fresh else [])


def _series(name: str, rank: str) -> Series:
    return Series(name, (("model_name", "m"), ("engine", rank)))


TestEngineTracker = Server.TestCase
