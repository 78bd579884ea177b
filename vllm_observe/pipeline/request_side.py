"""The requests' side of the pipeline: log lines in, joined requests and their counts out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from vllm_observe.clock import Clock
from vllm_observe.config import RequestLog, Settings
from vllm_observe.engine.limits import LimitsBook
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.errors import ConfigError
from vllm_observe.join.cardinality import LabelCap
from vllm_observe.join.causes import Classifier
from vllm_observe.join.coverage import Coverage
from vllm_observe.join.joiner import Joiner
from vllm_observe.join.sessions import Sessions
from vllm_observe.join.usual import UsualRequests
from vllm_observe.logs import EventLog
from vllm_observe.model import EdgeRecord, EngineRecord, JoinedRequest, Limits, Record
from vllm_observe.records.checkpoint import Checkpoint
from vllm_observe.records.fields import FieldMap
from vllm_observe.records.follow import Follower
from vllm_observe.records.reader import RecordReader
from vllm_observe.records.source import Source, Start, Wrapper
from vllm_observe.serve.accounting import Accounting
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.state import RequestsState

__all__ = ["RequestSide"]

#: Longer than most requests take: what they hold meanwhile must not look like a gap in the logs.
_COVERAGE_PERIOD_S = 600.0
#: For how long a log that is behind is read in one go, and what is done between two looks at the clock.
_FOLLOW_FOR_S = 0.2
_READ_AT_ONCE_BYTES = 1 << 18
_CLOSE_AT_ONCE = 2000
#: Between two times that the checkpoint is written: a crash has at most so much read twice.
_KEEP_EVERY_S = 1.0

_log = EventLog("requests")

_UNPARSED = "vllm_observe_log_unparsed_total"

#: Totals by the counter of ours that shows them: its name and its labels.
_Totals = dict[tuple[str, tuple[tuple[str, str], ...]], float]

_Label = TypeVar("_Label", bound=str)


class RequestSide:
    """Follows the request logs, joins their records with the engine's state, and counts the requests."""

    def __init__(
        self,
        settings: Settings,
        *,
        instruments: Instruments,
        tracker: EngineTracker,
        limits: LimitsBook,
        clock: Clock,
    ) -> None:
        self._instruments = instruments
        self._tracker = tracker
        self._limits = limits
        self._clock = clock
        self._profiles = LabelCap(limit=settings.max_profiles)
        self._models = LabelCap(limit=settings.max_profiles)
        self._sessions = Sessions(active_for=settings.session_window, limit=settings.max_sessions)
        self._usual = UsualRequests()
        self._coverage = Coverage(period=max(settings.join_window, _COVERAGE_PERIOD_S))
        self._classify = Classifier(
            targets=settings.targets,
            limits_for=limits.limits_for,
            usual=self._usual.of,
            engine_down=self._engine_down,
        )
        self._joiner = Joiner(
            clock=clock,
            window=settings.join_window,
            max_pending=settings.join_max_pending,
            samples=tracker,
            classify=self._classify,
        )
        self._accounting = Accounting(
            instruments, profiles=self._profiles, models=self._models, targets=settings.targets
        )
        self._outcomes: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()
        self._reader = self._open(settings)
        self._checkpoint = Checkpoint(settings.checkpoint_file) if settings.checkpoint_file else None
        self._kept_bytes, self._next_keep = 0, clock.monotonic()
        if self._checkpoint is not None and (kept := self._checkpoint.load()) is not None:
            self._reader.follower.restore(kept)
        self._read_before: _Totals = {}  # by the readers before this one
        self._follows = bool(settings.request_logs)

    def _open(self, settings: Settings) -> RecordReader:
        sources = [_source(log) for log in settings.request_logs]
        return RecordReader(follower=Follower(sources=sources, clock=self._clock), clock=self._clock)

    def apply(self, settings: Settings) -> None:
        """Go on with other settings, of those that can change while running.

        Files that are still followed are read on where they were.

        Raises:
            ConfigError: a field map is wrong; the old settings stay.
        """
        reader = self._open(settings)
        self._read_before = self._read_in_all()
        reader.follower.restore(self._reader.follower.positions())
        self._reader.follower.close()
        self._reader = reader
        self._kept_bytes = 0
        self._follows = bool(settings.request_logs)
        self._classify.targets = self._accounting.targets = settings.targets
        self._joiner.window = settings.join_window

    def follow(self) -> None:
        """Read what the logs have gained, and count the requests that became whole.

        A log that is far behind is left after a moment: others wait for the lock, and signals too.
        """
        self._read_until(self._clock.monotonic() + _FOLLOW_FOR_S)
        if self._clock.monotonic() >= self._next_keep:
            self._next_keep = self._clock.monotonic() + _KEEP_EVERY_S
            self._keep()

    def _read_until(self, until: float) -> None:
        behind = True
        while behind:
            for record in self._reader.poll(_READ_AT_ONCE_BYTES):
                self._take(record)
            now = self._clock.monotonic()
            self._count(self._joiner.close_due(now, _CLOSE_AT_ONCE))
            behind = self._reader.follower.behind and now < until

    def _keep(self) -> None:
        """Write down how far the logs were read, where that has changed."""
        follower = self._reader.follower
        if self._checkpoint is not None and follower.counts.bytes != self._kept_bytes:
            self._checkpoint.save(follower.positions())
            self._kept_bytes = follower.counts.bytes

    def _take(self, record: Record) -> None:
        try:
            if isinstance(record, EdgeRecord | EngineRecord):
                self._joiner.add(record)
            elif isinstance(record, Limits):
                self._limits.tell(record)
        except Exception as error:  # noqa: BLE001  # a fault of ours must not lose the records behind
            _log.exception("fault", error)

    def drain(self, within: float) -> bool:
        """Read the logs to their end and count every request that still waits; say whether all was.

        Args:
            within: seconds after which the rest is left.
        """
        deadline = self._clock.monotonic() + within
        self._reader.follower.search_now()
        self._read_until(deadline)
        while self._joiner.pending and self._clock.monotonic() < deadline:
            self._count(self._joiner.drain(most=_CLOSE_AT_ONCE))
        self._keep()
        behind = self._reader.follower.behind
        self._reader.follower.close()
        return not behind and not self._joiner.pending

    def _count(self, requests: Iterable[JoinedRequest]) -> None:
        for request in requests:
            self._accounting.joined(request)
            self._outcomes[request.outcome.value] += 1
            if request.evidence is not None:
                self._causes[request.evidence.cause.value] += 1
            self._coverage.claim(request)
            self._usual.observe(request)
            self._sessions.ended(request.session_id, request.ended_at, self._clock.wall())

    def scraped(self, models: Collection[str]) -> None:
        """Take note of a good scrape: of the models that are served, and of the tokens counted."""
        self._accounting.serves(models)
        samples = [view.sample for view in self._tracker.engines()]
        self._coverage.observe(samples, self._clock.monotonic())

    def _engine_down(self, request: JoinedRequest) -> bool:
        """Whether the engines that may have served a request stand still now."""
        model = request.model_name
        return bool(self._tracker.answers_without_tokens()) or any(
            view.stalled for view in self._tracker.engines() if model in (None, view.sample.key.model_name)
        )

    @property
    def capped(self) -> int:
        """How often a profile or a model was called ``other``, because too many names came before it."""
        return self._profiles.overflowed + self._models.overflowed

    def measure(self) -> None:
        """Bring up to date what the parts count themselves, before it is shown."""
        gauges = {
            "vllm_observe_join_pending": self._joiner.pending,
            "vllm_observe_active_sessions": self._sessions.active(self._clock.wall()),
            "vllm_observe_log_files_waiting": self._reader.follower.counts.waiting,
            "vllm_observe_log_lag_seconds": self._reader.follower.lag() if self._follows else None,
        }
        for name, value in gauges.items():
            self._instruments.gauge(name).set(value)
        for (name, labels), total in self._totals().items():
            self._instruments.counter(name, **dict(labels)).catch_up(total)

    def state(self) -> RequestsState:
        """Return what ``status`` shows of the requests, since the start of the process."""
        read = self._read_in_all()
        return RequestsState(
            lines=int(read["vllm_observe_log_lines_total", ()]),
            unparsed=int(sum(total for (name, _), total in read.items() if name == _UNPARSED)),
            lag_s=self._reader.follower.lag() if self._follows else None,
            pending=self._joiner.pending,
            sessions=self._sessions.active(self._clock.wall()),
            joined=dict(self._outcomes),
            slow=dict(self._causes),
        )

    def _totals(self) -> _Totals:
        dropped = {
            "join_full": self._joiner.stats.early,
            "sessions_full": self._sessions.overflowed,
        }
        return {
            **_by("vllm_observe_dropped_total", "reason", dropped),
            **_by("vllm_observe_unattributed_tokens_total", "kind", self._coverage.unattributed),
            **self._read_in_all(),
        }

    def _read_in_all(self) -> _Totals:
        read = _read(self._reader)
        return {
            counted: self._read_before.get(counted, 0) + read.get(counted, 0)
            for counted in self._read_before | read
        }


def _read(reader: RecordReader) -> _Totals:
    """What a reader has counted since it was made."""
    counts = reader.follower.counts
    own = {
        "lines": counts.lines,
        "bytes": counts.bytes,
        "rotations": counts.rotations,
        "truncations": counts.truncations,
        "open_errors": reader.follower.open_errors,
    }
    totals: _Totals = {(f"vllm_observe_log_{name}_total", ()): total for name, total in own.items()}
    return totals | _by(_UNPARSED, "reason", reader.unparsed)


def _by(name: str, label: str, totals: Mapping[_Label, float]) -> _Totals:
    return {(name, ((label, value),)): total for value, total in totals.items()}


def _source(log: RequestLog) -> Source:
    try:
        fields = FieldMap(log.fields) if log.fields else None
    except ConfigError as error:
        raise ConfigError(f"request_logs: {log.path}: {error}") from None
    return Source(path=log.path, fields=fields, wrapper=Wrapper(log.wrapper), start=Start(log.start))
