"""The pipeline: the one place that knows all parts, and what feeds what.

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
from vllm_observe.pipeline.engine_side import EngineSide
from vllm_observe.pipeline.request_side import RequestSide
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.render import Format, render
from vllm_observe.serve.state import State

__all__ = ["LIVE", "Pipeline"]


#: The settings that can change while running. Of the others some are bound to sockets, and some shape
#: what is remembered: another vLLM's counters must not be compared with this one's.
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
        self._lock = threading.Lock()  # guards all but the scraping, which must never wait for it
        self._instruments = Instruments()
        self._engine = EngineSide(settings, instruments=self._instruments, clock=clock)
        self._requests = RequestSide(
            settings,
            instruments=self._instruments,
            tracker=self._engine.tracker,
            limits=self._engine.limits,
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
                self._requests.scraped(self._engine.models())

    def skipped(self, scrapes: int) -> None:
        """Count scrapes that were due while another was under way."""
        self._instruments.counter("vllm_observe_scrapes_skipped_total").inc(scrapes)

    def read_limits(self) -> None:
        """Ask for the engines' limits, which may take as long as two scrapes."""
        self._engine.read_limits()

    def follow(self) -> None:
        """Read what the logs have gained."""
        with self._lock:
            self._engine.follow_log()
            self._requests.follow()

    # --- Asked by the listeners ------------------------------------------------------------------

    def page(self, form: Format) -> bytes:
        """Return the page that Prometheus scrapes."""
        with self._lock:
            engine = self._engine.families()
            self._requests.measure()
            capped = self._engine.capped + self._requests.capped
            self._instruments.counter("vllm_observe_dropped_total", reason="label_cap").catch_up(capped)
            own = self._instruments.families()
        return render([*engine, *own], form)

    def state(self) -> State:
        """Return what ``status`` shows."""
        with self._lock:
            requests = self._requests.state()
        return msgspec.structs.replace(self._engine.state(), requests=requests)

    def not_ready(self) -> str | None:
        """Return why there is nothing to serve yet; ``None`` where there is."""
        return self._engine.not_ready()

    # --- Told by the process ---------------------------------------------------------------------

    def apply(self, settings: Settings) -> Collection[str]:
        """Go on with other settings, or with the old ones where one of the others is wrong.

        Returns:
            The names of the settings that differ and that only a restart can change.

        Raises:
            ConfigError: which one is wrong.
        """
        changed = [name for name in Settings.model_fields if _differs(name, settings, self._settings)]
        live = {name: getattr(settings, name) for name in changed if name in LIVE}
        merged = self._settings.model_copy(update=live)
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
        """Count a reading of the configuration."""
        self._instruments.counter("vllm_observe_config_reloads_total", result="ok" if ok else "failed").inc()

    def stop_scraping(self) -> None:
        """Scrape no more, at the end of the process; a scrape under way is given up."""
        self._engine.close()

    def drain(self, within: float) -> bool:
        """Read and count what the logs still hold, at the end of the process; say whether that was all.

        Args:
            within: seconds after which the rest is left.
        """
        with self._lock:
            return self._requests.drain(within)


def _differs(name: str, one: Settings, other: Settings) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
