"""The pipeline: the one place that knows all parts, and how data flows between them.

The loops of the process drive it (:meth:`Pipeline.scrape`, :meth:`Pipeline.follow`), the listeners ask
it (:meth:`Pipeline.page`, :meth:`Pipeline.state`). The two sides are independent: a vLLM that does
not answer stops no log from being counted, and a log that cannot be read stops no scrape.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Collection

import msgspec

from vllm_observe import __version__
from vllm_observe.clock import Clock
from vllm_observe.config import Settings
from vllm_observe.logs import EventLog, Faults
from vllm_observe.pipeline.engine_side import EngineSide
from vllm_observe.pipeline.keeping import Keeping
from vllm_observe.pipeline.request_side import RequestSide
from vllm_observe.records.otlp import Encoding, Export, read
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.render import Format, render
from vllm_observe.serve.state import State
from vllm_observe.store.protocol import RequestReader

__all__ = ["LIVE", "Pipeline"]

_log = EventLog("pipeline")

#: The settings that can change while running. Of the others, some are bound to sockets and some shape
#: what is remembered: one vLLM's counters must not be compared with another's.
LIVE = frozenset(
    {
        "scrape_interval",
        "request_logs",
        "engine_log",
        "join_window",
        "stall_after",
        "max_num_seqs",
        "service_class",
        "target_ttft",
        "target_tpot",
        "target_e2e",
    }
)


class Pipeline:
    """Everything between the inputs and the page. Any thread may call any method.

    Args:
        settings: what to observe and how.
        clock: tells the time to all parts.

    Raises:
        ConfigError: a setting is wrong in a way that only its part can see.
    """

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()  # guards all but the scraping, which must never wait for it
        self._instruments = Instruments()
        self._faults = Faults(_log)
        self._engine = EngineSide(settings, instruments=self._instruments, clock=clock)
        self._keeping = Keeping(settings, instruments=self._instruments, clock=clock)
        self._requests = RequestSide(
            settings,
            instruments=self._instruments,
            engine=self._engine,
            keeping=self._keeping,
            faults=self._faults,
            clock=clock,
        )
        self._instruments.gauge(
            "vllm_observe_build_info", version=__version__, python_version=platform.python_version()
        ).set(1)

    # --- Driven by the loops ---------------------------------------------------------------------

    def scrape(self) -> None:
        """Scrape vLLM once."""
        look = self._engine.scrape()
        if look is not None:
            with self._lock:
                self._requests.scraped()

    def fault(self, error: Exception, **where: str) -> None:
        """Count a fault of ours that ended a piece of work, and tell it once."""
        self._faults.survived(error, **where)

    def skipped(self, scrapes: int) -> None:
        """Count scrapes that were due while another was under way."""
        self._instruments.counter("vllm_observe_scrapes_skipped_total").inc(scrapes)

    def read_limits(self) -> None:
        """Ask for the engines' limits, which may take as long as two scrapes."""
        self._engine.read_limits()

    def follow(self) -> None:
        """Read the new lines of the logs."""
        with self._lock:
            self._engine.follow_log()
            self._requests.follow()

    def take_traces(self, body: bytes, encoding: Encoding) -> Export:
        """Take the records of a body that was sent to the OTLP receiver, and return what it held.

        Raises:
            BodyError: it holds no traces.
        """
        export = read(body, encoding, self._clock.wall())
        with self._lock:
            self._requests.take(export)
        return export

    def flush_store(self) -> None:
        """Write the requests that wait to be stored; blocks for as long as the disk takes."""
        self._keeping.flush()

    # --- Asked by the listeners ------------------------------------------------------------------

    def page(self, form: Format) -> bytes:
        """Return the page that Prometheus scrapes."""
        with self._lock:
            engine = self._engine.families()
            self._requests.measure()
            self._keeping.measure()
            capped = self._engine.capped + self._requests.capped
            self._instruments.counter("vllm_observe_dropped_total", reason="label_cap").catch_up(capped)
            self._instruments.counter("vllm_observe_faults_total").catch_up(self._faults.count)
            own = self._instruments.families()
        return render([*engine, *own], form)

    def state(self) -> State:
        """Return what ``status`` shows."""
        with self._lock:
            requests = self._requests.state()
        return msgspec.structs.replace(self._engine.state(), requests=requests)

    @property
    def store(self) -> RequestReader | None:
        """The requests that are stored; ``None`` without a store."""
        return self._keeping.store

    def not_ready(self) -> str | None:
        """Return why there is nothing to serve yet; ``None`` where there is."""
        return self._engine.not_ready()

    # --- Told by the process ---------------------------------------------------------------------

    def apply(self, settings: Settings) -> Collection[str]:
        """Replace the settings that can change while running; keep the old ones where a new one is wrong.

        Returns:
            The names of the settings that differ and that only a restart can change.

        Raises:
            ConfigError: which one is wrong.
        """
        before = self._settings
        changed = [name for name in Settings.model_fields if getattr(settings, name) != getattr(before, name)]
        live = {name: getattr(settings, name) for name in changed if name in LIVE}
        merged = before.model_copy(update=live)
        with self._lock:
            self._requests.apply(merged)
            self._engine.apply(merged)
            self._settings = merged
        return [name for name in changed if name not in LIVE]

    @property
    def scrape_interval(self) -> float:
        """Seconds between two scrapes, as set now."""
        return self._settings.scrape_interval

    def reloaded(self, *, ok: bool) -> None:
        """Count a reload of the configuration."""
        self._instruments.counter("vllm_observe_config_reloads_total", result="ok" if ok else "failed").inc()

    def stop_scraping(self) -> None:
        """Stop scraping, at the end of the process; a scrape in progress is cancelled."""
        self._engine.close()

    def drain(self, within: float) -> bool:
        """Read and count what the logs still hold, at the end of the process; return whether that was all.

        Args:
            within: seconds after which the rest is left.
        """
        with self._lock:
            drained = self._requests.drain(within)
        self._keeping.close()
        return drained
