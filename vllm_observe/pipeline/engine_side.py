"""The engine's side of the pipeline: scrapes in, engine metrics out."""

from __future__ import annotations

from vllm_observe.clock import Clock
from vllm_observe.config import Settings
from vllm_observe.engine.address import Address
from vllm_observe.engine.command_line import command_line_of
from vllm_observe.engine.fetch import Fetcher
from vllm_observe.engine.limit_sources import from_log_line
from vllm_observe.engine.limits import LimitsBook, LimitsReader
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.engine.watch import EngineWatch, Look
from vllm_observe.errors import ScrapeError
from vllm_observe.join.cardinality import LabelCap
from vllm_observe.logs import EventLog
from vllm_observe.model import Family, JoinedRequest, Limits, LimitsSource
from vllm_observe.records.follow import Follower
from vllm_observe.records.source import Source
from vllm_observe.serve.engine_gauges import engine_gauges, lora_gauges, scrape_gauges, target_info
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.state import State, engine_state
from vllm_observe.serve.windows import LookBack
from vllm_observe.thresholds import STALE_AFTER_INTERVALS

__all__ = ["EngineSide"]

_log = EventLog("engine")


class EngineSide:
    """Scrapes one vLLM, follows its engines and its limits, and counts what happens on the way.

    Attributes:
        tracker: the engines over time.
        watch: the latest scrape of vLLM, or why there is none.
        limits: what each source says about the engines' limits.
    """

    def __init__(self, settings: Settings, *, instruments: Instruments, clock: Clock) -> None:
        self._settings = settings
        self._instruments = instruments
        self._clock = clock
        self._address = Address.parse(settings.vllm_url)
        self._adapters = LabelCap(limit=settings.max_adapters)
        self._look_back = LookBack()
        self.limits = LimitsBook(clock=clock)
        self.tracker = EngineTracker(
            clock=clock, stall_after=settings.stall_after, stale_after=_stale_after(settings)
        )
        self._scraper, self._asker = (self._fetcher() for _ in range(2))  # a slow answer delays no scrape
        self.watch = EngineWatch(fetcher=self._scraper, tracker=self.tracker, clock=clock)
        self._reader = LimitsReader(
            book=self.limits,
            get_json=self._asker.get_json,
            command_line=command_line_of(self._address),
            clock=clock,
        )
        self._engine_log = self._open(settings)
        self._closed = False
        self._tell_setting()

    def _fetcher(self) -> Fetcher:
        settings = self._settings
        return Fetcher(
            url=settings.vllm_url,
            metrics_path=settings.metrics_path,
            timeout=settings.scrape_timeout,
            max_bytes=settings.scrape_max_bytes,
            token_file=settings.scrape_token_file,
            ca_file=settings.scrape_ca_file,
            compression=settings.scrape_compression,
            clock=self._clock,
        )

    def _open(self, settings: Settings) -> Follower:
        logs = [Source(path=str(settings.engine_log))] if settings.engine_log else []
        return Follower(sources=logs, clock=self._clock)

    def _tell_setting(self) -> None:
        self.limits.tell(Limits(source=LimitsSource.SETTING, max_num_seqs=self._settings.max_num_seqs))

    def apply(self, settings: Settings) -> None:
        """Replace the settings that can change while running."""
        if settings.engine_log != self._settings.engine_log:
            self._engine_log.close()
            self._engine_log = self._open(settings)
        self._settings = settings
        self.tracker.stall_after = settings.stall_after
        self.tracker.stale_after = _stale_after(settings)
        self._tell_setting()

    def scrape(self) -> Look | None:
        """Scrape once; ``None`` where the scrape failed."""
        failure, last = self.watch.failure, self.watch.look
        restarts = self.tracker.restarts
        try:
            look = self.watch.scrape()
        except ScrapeError as error:
            if not self._closed:  # else we cancelled it, which says nothing about vLLM
                self._failed(error, first=failure is None or failure.error.reason is not error.reason)
            return None
        if failure is not None or last is None:
            _log.info("scraping", url=self._address.origin, families=len(look.families))
        self._look_back.add(look)
        for reason, number in look.dropped.items():
            self._instruments.counter("vllm_observe_exposition_dropped_total", reason=reason).inc(number)
        if self.tracker.restarts > restarts:
            self._instruments.counter("vllm_observe_engine_restarts_total").inc()
            _log.warning("vLLM restarted")
            self._reader.restarted(last_seen=last.at if last is not None else look.at)
        return look

    def _failed(self, error: ScrapeError, *, first: bool) -> None:
        self._instruments.counter("vllm_observe_scrape_failures_total", reason=error.reason).inc()
        if first:  # one line a state, not one a scrape
            _log.warning("scrape failed", reason=error.reason.value, error=str(error))

    def read_limits(self) -> None:
        """Ask for the engines' limits, where it is time to and vLLM answers."""
        if self.watch.failure is None and self.watch.look is not None:
            self._reader.refresh()

    def follow_log(self) -> None:
        """Read the new lines of vLLM's own log: vLLM writes its limits there when it starts."""
        for line in self._engine_log.poll():
            limits = from_log_line(line.data.decode("utf-8", "replace"))
            if limits is not None:
                self.limits.tell(limits)

    def models(self) -> list[str]:
        """Return the models that are served now."""
        return list(dict.fromkeys(view.sample.key.model_name for view in self.tracker.engines()))

    def was_down(self, request: JoinedRequest) -> bool:
        """Say whether the engines that may have served a request are stalled now, or ended with it."""
        if self.tracker.answers_without_tokens() or self.tracker.restarted_around(request.ended_at):
            return True
        engines, model = self.tracker.engines(), request.model_name
        if len({view.sample.key.model_name for view in engines}) == 1:
            model = None  # whatever name or alias the client used, it meant the only model
        return any(view.stalled for view in engines if model in (None, view.sample.key.model_name))

    def families(self) -> list[Family]:
        """Return vLLM's families and ours about its engines; where the state is stale, no engine's."""
        look = self.watch.current()
        if look is None:
            return [*scrape_gauges(self.watch), *target_info(self._settings.service_class, Limits())]
        limits_for = self.limits.limits_for
        first = next((view.sample.key.engine for view in self.tracker.engines()), "")
        return [
            *look.families,
            *engine_gauges(self.tracker, look.families, limits_for=limits_for),
            *lora_gauges(look.lora, self._adapters),
            *scrape_gauges(self.watch),
            *target_info(self._settings.service_class, limits_for(first)),
        ]

    @property
    def capped(self) -> int:
        """How often an adapter was called ``other``, because too many names came before it."""
        return self._adapters.overflowed

    def state(self) -> State:
        """Return what ``status`` shows of the engines."""
        return engine_state(
            self.watch,
            self._look_back.earlier,
            limits=self.limits.limits_for,
            service_class=self._settings.service_class,
            targets=self._settings.targets,
            url=self._settings.vllm_url,
            clock=self._clock,
        )

    def not_ready(self) -> str | None:
        """Return why there was no good scrape yet; ``None`` from the first on."""
        if self.watch.look is not None:
            return None
        failure = self.watch.failure
        return str(failure.error) if failure else "vLLM has not been scraped yet"

    def close(self) -> None:
        """Stop scraping, and cancel a scrape in progress."""
        self._closed = True
        self._scraper.close()
        self._asker.close()


def _stale_after(settings: Settings) -> float:
    # A scrape may take longer than an interval: a slow vLLM's state is not stale before the next has come.
    interval = settings.scrape_interval
    return max(interval * STALE_AFTER_INTERVALS, interval + settings.scrape_timeout)
