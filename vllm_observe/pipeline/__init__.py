"""The pipeline: the one place that knows all parts, and what feeds what.

The loops of the process drive it (:meth:`Pipeline.scrape`, :meth:`Pipeline.follow`), the listeners ask
it (:meth:`Pipeline.page`, :meth:`Pipeline.state`). The two sides are independent: a vLLM that does
not answer stops no log from being counted, and a log that cannot be read stops no scrape.
"""

from __future__ import annotations

import platform
import threading

import msgspec

from vllm_observe import __version__
from vllm_observe.clock import Clock
from vllm_observe.config import Settings
from vllm_observe.pipeline.engine_side import EngineSide
from vllm_observe.pipeline.request_side import RequestSide
from vllm_observe.serve.instruments import Instruments
from vllm_observe.serve.render import Format, render
from vllm_observe.serve.state import State

__all__ = ["Pipeline"]


class Pipeline:
    """Everything between the inputs and the page. Any thread may call any method.

    Args:
        settings: what to observe and how.
        clock: tells the time to all parts.

    Raises:
        ConfigError: a setting is wrong in a way that only its part can see.
    """

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        self._lock = threading.Lock()  # guards the requests' side; the engine's guards itself
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
        self._engine.follow_log()
        with self._lock:
            self._requests.follow()

    # --- Asked by the listeners ------------------------------------------------------------------

    def page(self, form: Format) -> bytes:
        """Return the page that Prometheus scrapes."""
        with self._lock:
            self._requests.measure()
            own = self._instruments.families()
        return render([*self._engine.families(), *own], form)

    def state(self) -> State:
        """Return what ``status`` shows."""
        with self._lock:
            requests = self._requests.state()
        return msgspec.structs.replace(self._engine.state(), requests=requests)

    def not_ready(self) -> str | None:
        """Return why there is nothing to serve yet; ``None`` where there is."""
        return self._engine.not_ready()

    # --- Told by the process ---------------------------------------------------------------------

    def apply(self, settings: Settings) -> None:
        """Go on with other settings, or with the old ones where the others are wrong.

        Raises:
            ConfigError: which one is wrong.
        """
        with self._lock:
            for go_on in (self._engine.prepare(settings), self._requests.prepare(settings)):
                go_on()

    def reloaded(self, *, ok: bool) -> None:
        """Count a reading of the configuration."""
        self._instruments.counter("vllm_observe_config_reloads_total", result="ok" if ok else "failed").inc()

    def stop_scraping(self) -> None:
        """Scrape no more, at the end of the process; a scrape under way is given up."""
        self._engine.close()

    def drain(self, within: float) -> None:
        """Read and count what the logs still hold, at the end of the process, for so many seconds at most."""
        with self._lock:
            self._requests.drain(within)
