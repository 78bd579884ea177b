"""The engine's side of the pipeline: scrapes in, engine metrics out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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
from vllm_observe.model import Family, Limits, LimitsSource
from vllm_observe.records.follow import Follower
from vllm_observe.records.source import Source
from vllm_observe.serve.engine_gauges import engine_gauges, lora_gauges, target_info
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.state import State, engine_state
from vllm_observe.serve.windows import LookBack
from vllm_observe.thresholds import STALE_AFTER_INTERVALS

__all__ = ["EngineSide"]

_log = EventLog("engine")


class _Connection(NamedTuple):
    """What belongs to one address of vLLM, and is made anew when a setting of it changes."""

    address: Address
    watch: EngineWatch
    reader: LimitsReader
    asker: Fetcher

    def close(self) -> None:
        self.watch.close()
        self.asker.close()


class EngineSide:
    """Scrapes one vLLM, follows its engines and its limits, and counts what happens on the way.

    Attributes:
        tracker: the engines over time.
        limits: what each source says of the engines' limits.
    """

    def __init__(self, settings: Settings, *, instruments: Instruments, clock: Clock) -> None:
        self._settings = settings
        self._instruments = instruments
        self._clock = clock
        self._adapters = LabelCap(limit=settings.max_adapters)
        self.limits = LimitsBook(clock=clock)
        self.tracker = EngineTracker(
            clock=clock, stall_after=settings.stall_after, stale_after=_stale_after(settings)
        )
        self._connection = self._connect(settings)
        self._engine_log = self._open(settings)
        self._look_back = LookBack()
        self._closed = False
        self._instruments.gauge("vllm_observe_scrape_success").set(0)
        self._tell_setting(settings)

    def _connect(self, settings: Settings) -> _Connection:
        address = Address.parse(settings.vllm_url)
        scraper, asker = (self._fetcher(settings) for _ in range(2))  # a slow answer must delay no scrape
        reader = LimitsReader(
            book=self.limits,
            get_json=asker.get_json,
            command_line=command_line_of(address),
            clock=self._clock,
        )
        watch = EngineWatch(fetcher=scraper, tracker=self.tracker, clock=self._clock)
        return _Connection(address, watch, reader, asker)

    def _fetcher(self, settings: Settings) -> Fetcher:
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

    def _tell_setting(self, settings: Settings) -> None:
        self.limits.tell(Limits(source=LimitsSource.SETTING, max_num_seqs=settings.max_num_seqs))

    @property
    def watch(self) -> EngineWatch:
        """The latest look at vLLM, or why there is none."""
        return self._connection.watch

    def prepare(self, settings: Settings) -> Callable[[], None]:
        """Make ready for other settings; what is returned goes on with them, and cannot fail.

        Raises:
            ConfigError: a setting is wrong.
        """
        connection = self._connect(settings)

        def go_on() -> None:
            old, self._connection = self._connection, connection
            old.close()
            if settings.engine_log != self._settings.engine_log:
                self._engine_log.close()
                self._engine_log = self._open(settings)
            self._settings = settings
            self.tracker.stall_after = settings.stall_after
            self.tracker.stale_after = _stale_after(settings)
            self._tell_setting(settings)

        return go_on

    def scrape(self) -> Look | None:
        """Scrape once; ``None`` where that gave nothing."""
        watch = self._connection.watch
        failed_before, last = watch.failure, watch.look
        restarts = self.tracker.restarts
        try:
            look = watch.scrape()
        except ScrapeError as error:
            if self._closed or watch is not self.watch:  # given up by us: it says nothing of vLLM
                return None
            self._failed(error, first=failed_before is None or failed_before.error.reason is not error.reason)
            return None
        if failed_before is not None or last is None:
            _log.info("scraping", url=self._connection.address.origin, families=len(look.families))
        self._look_back.add(look)
        self._count(look)
        if self.tracker.restarts > restarts:
            self._instruments.counter("vllm_observe_engine_restarts_total").inc()
            _log.warning("vLLM restarted")
            self._connection.reader.restarted(last_seen=last.at if last is not None else look.at)
        return look

    def read_limits(self) -> None:
        """Ask for the engines' limits, where it is time to and vLLM answers."""
        if self.watch.failure is None and self.watch.look is not None:
            self._connection.reader.refresh()

    def follow_log(self) -> None:
        """Read what vLLM's own log has gained: at its start it names its limits there."""
        for line in self._engine_log.poll():
            limits = from_log_line(line.data.decode("utf-8", "replace"))
            if limits is not None:
                self.limits.tell(limits)

    def _failed(self, error: ScrapeError, *, first: bool) -> None:
        self._instruments.counter("vllm_observe_scrape_failures_total", reason=error.reason).inc()
        self._instruments.gauge("vllm_observe_scrape_success").set(0)
        if first:  # one line a state, not one a scrape
            _log.warning("scrape failed", reason=error.reason.value, error=str(error))

    def _count(self, look: Look) -> None:
        self._instruments.gauge("vllm_observe_scrape_success").set(1)
        self._instruments.gauge("vllm_observe_scrape_duration_seconds").set(look.seconds)
        for reason, number in look.dropped.items():
            self._instruments.counter("vllm_observe_exposition_dropped_total", reason=reason).inc(number)

    def models(self) -> list[str]:
        """Return the models that are served now."""
        return list(dict.fromkeys(view.sample.key.model_name for view in self.tracker.engines()))

    def families(self) -> list[Family]:
        """Return vLLM's families and ours about its engines; where the state is stale, no engine's."""
        look, views = self.watch.current(), self.tracker.engines()
        limits = self.limits.limits_for(views[0].sample.key.engine if views else "")
        info = target_info(self._settings.service_class, limits)
        if look is None:
            return info
        gauges = engine_gauges(self.tracker, look.families, limits_for=self.limits.limits_for)
        return [*look.families, *gauges, *lora_gauges(look.lora, self._adapters), *info]

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
        """End the scraping, and give up a scrape that is under way."""
        self._closed = True
        self._connection.close()


def _stale_after(settings: Settings) -> float:
    return settings.scrape_interval * STALE_AFTER_INTERVALS
