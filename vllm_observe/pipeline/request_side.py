"""The requests' side of the pipeline: log lines in, joined requests and their counts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vllm_observe.clock import Clock
from vllm_observe.config import Settings
from vllm_observe.join.causes import Classifier
from vllm_observe.join.joiner import Joiner
from vllm_observe.logs import Faults
from vllm_observe.model import EdgeRecord, EngineRecord, JoinedRequest, Limits, Record
from vllm_observe.pipeline.counting import Counting
from vllm_observe.pipeline.engine_side import EngineSide
from vllm_observe.pipeline.keeping import Keeping
from vllm_observe.pipeline.log_reading import LogReading
from vllm_observe.pipeline.silence import Silence
from vllm_observe.pipeline.totals import Totals, by, show
from vllm_observe.records.otlp import Export
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.state import RequestsState
from vllm_observe.store.protocol import Progress

__all__ = ["RequestSide"]

#: For how long a log that is behind is read in one turn.
_FOLLOW_FOR_S = 0.2
_CLOSE_AT_ONCE = 2000
#: Seconds between two savings of requests and progress: the work of so long is repeated after a crash.
_KEEP_EVERY_S = 1.0


class RequestSide:
    """Follows the request logs, joins their records with the engine's state, and counts the requests.

    Args:
        settings: which logs, and the bounds of the join.
        instruments: where metrics are counted.
        engine: the other side: the engine's state around a request, and its limits.
        keeping: what survives a restart.
        faults: of ours that no request was lost by.
        clock: tells the time.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        instruments: Instruments,
        engine: EngineSide,
        keeping: Keeping,
        faults: Faults,
        clock: Clock,
    ) -> None:
        self._instruments = instruments
        self._engine = engine
        self._keeping = keeping
        self._faults = faults
        self._clock = clock
        self._logs = LogReading(settings.request_logs, clock=clock)
        self._silence = Silence(clock)
        self._counting = Counting(settings, instruments=instruments, clock=clock)
        self._classify = Classifier(
            targets=settings.targets,
            limits_for=engine.limits.limits_for,
            usual=self._counting.usual.of,
            engine_down=engine.was_down,
        )
        self._joiner = Joiner(
            clock=clock,
            window=settings.join_window,
            max_pending=settings.join_max_pending,
            samples=engine.tracker,
            classify=self._classify,
            faults=faults,
        )
        self._logged_limits: dict[str | None, Limits] = {}  # the latest of each engine
        self._spans: Counter[str] = Counter()
        self._has_begun = False
        self._has_news = False  # since what was last kept
        self._kept_bytes = 0
        self._next_keep = clock.monotonic()
        self._resume()

    def _resume(self) -> None:
        """Continue where an earlier process stopped: with its memory, and the records waiting in its join."""
        kept = self._keeping.resume()
        if kept is None:
            return
        self._has_begun = True
        self._logs.restore(kept.positions)
        for request in self._keeping.latest():
            self._joiner.remember(request)
            self._counting.remember(request)
        for record in (*kept.limits, *kept.waiting):
            self._take(record)

    def apply(self, settings: Settings) -> None:
        """Replace the settings that can change while running.

        Raises:
            ConfigError: a field map is wrong; the old settings stay.
        """
        self._logs.follow_others(settings.request_logs)
        self._has_news = True
        self._classify.targets = settings.targets
        self._counting.judge_by(settings.targets)
        self._joiner.window = settings.join_window

    # --- Records in

    def follow(self) -> None:
        """Read the new lines of the logs, and count the requests that became whole.

        Reading a log that is far behind stops after a moment: others wait for the lock, and signals too.
        """
        if not self._has_begun:
            self._begin()
        self._read(self._clock.monotonic() + _FOLLOW_FOR_S)
        if self._clock.monotonic() >= self._next_keep:
            self._next_keep = self._clock.monotonic() + _KEEP_EVERY_S
            self._keep()

    def _begin(self) -> None:
        """Keep at the very first start, before anything else is done, which logs there were.

        What comes from now on is new: whoever starts after a kill reads it, though it was rotated.
        """
        self._has_begun = self._has_news = True
        self._logs.look()
        self._keep()
        self._keeping.flush()

    def _read(self, until: float) -> None:
        for records in self._logs.read(until):
            self._silence.read(self._logs.lines)
            for record in records:
                self._take(record)
            self._count(self._joiner.close_due(self._clock.monotonic(), _CLOSE_AT_ONCE))

    def take(self, export: Export) -> None:
        """Take the records that vLLM sent as spans, and count all of its spans."""
        for record in export.records:
            self._take(record)
        for error in export.refused:
            self._logs.refuse(error, "a span is no record")
        self._spans.update(record=len(export.records), unparsed=len(export.refused), other=export.others)

    def _take(self, record: Record) -> None:
        self._has_news = True
        try:
            if isinstance(record, EdgeRecord | EngineRecord):
                self._joiner.add(record)
            elif isinstance(record, Limits):
                self._engine.limits.tell(record)
                self._logged_limits[record.engine] = record
            else:
                self._engine.tracker.told(record)
        except Exception as error:  # noqa: BLE001  # a fault of ours must not lose the records behind
            self._faults.survived(error)

    # --- Requests out

    def _count(self, requests: Iterable[JoinedRequest]) -> None:
        for request in requests:
            self._has_news = True
            self._keeping.take(request)
            try:
                self._counting.take(request)
            except Exception as error:  # noqa: BLE001  # nor the requests behind
                self._faults.survived(error)

    def _keep(self) -> None:
        """Save what was handed out and how far the logs were read, where that has changed.

        Call it between two readings: then every record is in the join or was handed out.
        """
        if self._keeping.is_used and (self._has_news or self._logs.bytes != self._kept_bytes):
            self._kept_bytes, self._has_news = self._logs.bytes, False
            self._keeping.keep(
                Progress(
                    positions=self._logs.positions(),
                    waiting=tuple(self._joiner.waiting()),
                    limits=tuple(self._logged_limits.values()),
                )
            )

    def drain(self, within: float) -> bool:
        """Read the logs to their end and count every request that still waits; say whether all was.

        Args:
            within: seconds after which the rest is left.
        """
        deadline = self._clock.monotonic() + within
        self._logs.search_now()
        self._read(deadline)
        while self._joiner.pending and self._clock.monotonic() < deadline:
            self._count(self._joiner.drain(most=_CLOSE_AT_ONCE))
        self._keep()
        is_behind = self._logs.is_behind
        self._logs.close()
        return not is_behind and not self._joiner.pending

    # --- What is known of them

    def scraped(self) -> None:
        """Note what the engines serve and have counted, after a successful scrape."""
        samples = [view.sample for view in self._engine.tracker.engines()]
        self._counting.scraped(self._engine.models(), samples)
        self._silence.scraped(samples)

    @property
    def capped(self) -> int:
        """How often a profile or a model was called ``other``, because the names before it reached the bound."""
        return self._counting.capped

    def measure(self) -> None:
        """Copy what the parts keep themselves into the instruments, before these are shown."""
        gauges = {
            "vllm_observe_join_pending": self._joiner.pending,
            "vllm_observe_active_sessions": self._counting.active_sessions(),
            "vllm_observe_log_files_waiting": self._logs.waiting,
            "vllm_observe_log_lag_seconds": self._logs.lag(),
        }
        for name, value in gauges.items():
            self._instruments.gauge(name).set(value)
        for source, ahead in self._joiner.skews.known().items():
            self._instruments.gauge("vllm_observe_clock_skew_seconds", source=source or "").set(ahead)
        show(self._totals(), self._instruments)

    def _totals(self) -> Totals:
        stats = self._joiner.stats
        return {
            **by("vllm_observe_dropped_total", "reason", {"join_full": stats.early}),
            **by("vllm_observe_spans_total", "result", self._spans),
            ("vllm_observe_join_amended_total", ()): stats.amended,
            **self._counting.totals(),
            **self._logs.totals(),
        }

    def state(self) -> RequestsState:
        """Return what ``status`` shows of the requests, since the start of the process."""
        lag = self._logs.lag()
        return RequestsState(
            lines=self._logs.lines,
            unparsed=self._logs.unparsed,
            lag_s=lag,
            silent_s=None if lag is None else self._silence.seconds,
            pending=self._joiner.pending,
            sessions=self._counting.active_sessions(),
            joined=dict(self._counting.outcomes),
            slow=dict(self._counting.causes),
        )
