"""The sidecar as a process: its loops, its listeners and what it does on a signal.

SIGTERM and SIGINT drain and close within five seconds, SIGHUP reads the configuration again.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from vllm_observe import __version__, logs
from vllm_observe.clock import Clock, SystemClock
from vllm_observe.config import ListenerSecurity, Settings, load_settings
from vllm_observe.errors import ConfigError
from vllm_observe.pipeline import Pipeline
from vllm_observe.serve.api.routes import api_routes
from vllm_observe.serve.app import admin_app, metrics_app
from vllm_observe.serve.auth import Credentials, check_exposure
from vllm_observe.serve.listener import Listener, TlsFiles
from vllm_observe.serve.traces import traces_route

__all__ = ["Loop", "Sidecar", "run"]

#: Between two looks at the request logs: a tenth of a second is not noticed, and a stat costs 2 us.
FOLLOW_INTERVAL_S = 0.2
#: Between two batches that are stored.
STORE_INTERVAL_S = 0.5
#: What SIGTERM may take for the last lines, and then for the requests on each listener.
CLOSE_WITHIN_S = 2.0
LISTENER_CLOSE_S = 0.5

_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

_log = logs.EventLog("sidecar")


class Loop:
    """Does one thing again and again, each time due an interval after the last was due.

    One is in flight at most: what falls due meanwhile is skipped and told, never queued up.
    """

    def __init__(
        self,
        *,
        name: str,
        interval: Callable[[], float],
        work: Callable[[], None],
        skipped: Callable[[int], None],
        fault: Callable[[Exception], None],
        stop: threading.Event,
        clock: Clock,
    ) -> None:
        self._interval = interval
        self._work = work
        self._skipped = skipped
        self._fault = fault
        self._stop = stop
        self._clock = clock
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the end of the work in flight, for so many seconds at most."""
        self._thread.join(timeout)

    @property
    def running(self) -> bool:
        """Whether work is still in flight."""
        return self._thread.is_alive()

    def run(self) -> None:
        """Work until the stop is set."""
        due = self._clock.monotonic()
        while not self._clock.wait(self._stop, max(0.0, due - self._clock.monotonic())):
            try:
                self._work()
            except Exception as error:  # noqa: BLE001  # one fault of ours must not end the observing
                self._fault(error)
            interval = self._interval()
            due += interval
            missed = int((self._clock.monotonic() - due) // interval) + 1
            if missed > 0:
                self._skipped(missed)
                due += missed * interval


class Sidecar:
    """One running sidecar: a pipeline, the loops that drive it and the listeners that show it."""

    def __init__(self, settings: Settings, *, reload: Callable[[], Settings], clock: Clock) -> None:
        self._reload = reload
        self._clock = clock
        self._stop = threading.Event()
        self.pipeline = Pipeline(settings, clock=clock)
        self._listeners = self._listen(settings)
        self._loops = [
            self._loop("scrape", self.pipeline.scrape, self._scrape_interval, self.pipeline.skipped),
            self._loop("limits", self.pipeline.read_limits, self._scrape_interval),
            self._loop("follow", self.pipeline.follow, lambda: FOLLOW_INTERVAL_S),
            self._loop("store", self.pipeline.flush_store, lambda: STORE_INTERVAL_S),
        ]

    def _loop(
        self,
        name: str,
        work: Callable[[], None],
        interval: Callable[[], float],
        skipped: Callable[[int], None] = lambda _: None,
    ) -> Loop:
        return Loop(
            name=name,
            work=work,
            interval=interval,
            skipped=skipped,
            fault=partial(self.pipeline.fault, loop=name),
            stop=self._stop,
            clock=self._clock,
        )

    def _scrape_interval(self) -> float:
        return self.pipeline.scrape_interval

    def _healthy(self) -> bool:
        return self._stop.is_set() or all(loop.running for loop in self._loops)

    def _listen(self, settings: Settings) -> list[Listener]:
        metrics_auth = _credentials(settings, "metrics_security")
        admin_auth = _credentials(settings, "admin_security")
        check_exposure(settings.admin_listen, admin_auth)
        metrics = metrics_app(
            page=self.pipeline.page, ready=self._ready, healthy=self._healthy, auth=metrics_auth
        )
        admin = admin_app(
            state=self.pipeline.state,
            auth=admin_auth,
            extra_routes=[
                *api_routes(lambda: self.pipeline.store, self._clock),
                traces_route(self.pipeline.take_traces),
            ],
        )
        return [
            Listener(metrics, settings.listen, flag="--listen", tls=_tls(settings, "metrics_security")),
            Listener(
                admin, settings.admin_listen, flag="--admin-listen", tls=_tls(settings, "admin_security")
            ),
        ]

    def _ready(self) -> str | None:
        return "shutting down" if self._stop.is_set() else self.pipeline.not_ready()

    def run(self) -> None:
        """Observe until a signal ends it."""
        # Blocked in every thread and waited for here: no handler runs in the midst of other work.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for loop in self._loops:
            loop.start()
        for listener in self._listeners:
            listener.start()
        metrics, admin = self._listeners
        _log.info("started", version=__version__, metrics=metrics.url, admin=admin.url)
        while signal.sigwait(_SIGNALS) == signal.SIGHUP:
            self._reread()
        self.close()

    def close(self) -> None:
        """Read what the logs still hold, close what can be closed, and stop listening."""
        self._stop.set()
        self.pipeline.stop_scraping()
        deadline = self._clock.monotonic() + CLOSE_WITHIN_S
        for loop in self._loops:
            loop.join(max(0.0, deadline - self._clock.monotonic()))
        left = deadline - self._clock.monotonic()
        drained = not any(loop.running for loop in self._loops) and self.pipeline.drain(max(0.0, left))
        for listener in self._listeners:
            listener.close(LISTENER_CLOSE_S)
        _log.info("stopped", drained=drained)

    def _reread(self) -> None:
        try:
            needs_restart = self.pipeline.apply(self._reload())
        except ConfigError as error:
            self.pipeline.reloaded(ok=False)
            _log.error("configuration not re-read", error=str(error))
        except Exception as error:  # noqa: BLE001  # a fault of ours must not end what runs well
            self.pipeline.reloaded(ok=False)
            _log.exception("configuration not re-read", error)
        else:
            self.pipeline.reloaded(ok=True)
            _log.info("configuration re-read", needs_restart=list(needs_restart))


def run(*, config: Path | None, flags: Mapping[str, object]) -> None:
    """Run a sidecar until a signal ends it.

    Raises:
        ConfigError: a setting is wrong, a named file cannot be read or an address cannot be bound.
    """

    def settings() -> Settings:
        return load_settings(config=config, flags=flags)

    first = settings()
    logs.configure(form=first.log_format, level=first.log_level)
    Sidecar(first, reload=settings, clock=SystemClock()).run()


def _credentials(settings: Settings, name: str) -> Credentials:
    security: ListenerSecurity = getattr(settings, name)
    with _named(name):
        return Credentials(token_file=security.token_file, basic_auth_file=security.basic_auth_file)


def _tls(settings: Settings, name: str) -> TlsFiles | None:
    security: ListenerSecurity = getattr(settings, name)
    if security.tls_cert_file is None and security.tls_key_file is None:
        return None
    with _named(name):
        if security.tls_cert_file is None or security.tls_key_file is None:
            raise ConfigError("tls_cert_file and tls_key_file belong together: set both or neither")
        return TlsFiles(certificate=security.tls_cert_file, key=security.tls_key_file)


@contextlib.contextmanager
def _named(setting: str) -> Iterator[None]:
    """Have a complaint begin with the setting that it is about."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from None
