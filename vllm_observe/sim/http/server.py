"""The simulated vLLM as an HTTP server: the composition root of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from starlette.types import ASGIApp

from vllm_observe.clock import Clock, SystemClock
from vllm_observe.plugin.middleware import RequestLogMiddleware
from vllm_observe.plugin.process import Process
from vllm_observe.sim.control import Control, Deed
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.exposition import Exposition
from vllm_observe.sim.http.app import Paths
from vllm_observe.sim.http.around import CountAnswers, RequestIdHeaders
from vllm_observe.sim.http.conductor import Conductor
from vllm_observe.sim.http.plugin import LogTap, StatLoggers, plugin_for
from vllm_observe.sim.http.surface import Surface
from vllm_observe.sim.pages import Flavour, releases

__all__ = ["Settings", "SimulatedVllm"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a simulated vLLM shows itself.

    Attributes:
        release: one of ``pages.releases()``.
        flavour: its engine.
        adapters: names of LoRA adapters that can be asked for in the model's place.
        development: whether ``VLLM_SERVER_DEV_MODE`` is on.
        request_id_headers: whether ``--enable-request-id-headers`` is on.
        api_servers: how many API processes it has, as far as /metrics shows.
        log: the request log that the plugin writes; ``None`` for no plugin.
    """

    release: str = releases()[-1]
    flavour: Flavour = Flavour.V1
    adapters: Sequence[str] = ()
    development: bool = False
    request_id_headers: bool = False
    api_servers: int = 1
    log: Path | None = None


class SimulatedVllm:
    """A deployment that is served over HTTP.

    For one thread, an event loop's. Time before the deployment's second 0 is over when it begins.

    Args:
        deployment: the server; nothing else may let it go on.
        settings: how it shows itself.
        deeds: what befalls it, such as the timeline of a scenario.
        clock: the present.
        process: the plugin, in place of one that writes to ``settings.log``.

    Attributes:
        app: the ASGI application.
        conductor: what lets it go on; ``run`` has to be awaited meanwhile.
        control: what can be done to it, by ``conductor.act``.

    Raises:
        ValueError: the release is not known, or does not have that engine or so many of them.
    """

    def __init__(
        self,
        deployment: Deployment,
        settings: Settings,
        *,
        deeds: Iterable[Deed] = (),
        clock: Clock | None = None,
        process: Process | None = None,
    ) -> None:
        clock = clock or SystemClock()
        surface = Surface(settings.release)
        deployment.counts_answers = False
        deployment.advance(max(0.0, deployment.now))
        self._close_log: Callable[[], None] = lambda: None
        if process is None and settings.log is not None:
            process, self._close_log = plugin_for(settings.log, clock)
        self.control = Control(deployment)
        self.conductor = Conductor(deployment, clock=clock)
        exposition = Exposition(
            settings.release,
            flavour=settings.flavour,
            epoch=self.conductor.epoch,
            api_servers=settings.api_servers,
        )
        exposition.text(deployment)  # so that a page that cannot be written is told of at once
        paths = Paths(
            self.conductor,
            control=self.control,
            exposition=exposition,
            surface=surface,
            adapters=settings.adapters,
            development=settings.development,
        )
        app: ASGIApp = CountAnswers(paths.app(), self.conductor)
        if settings.request_id_headers:
            app = RequestIdHeaders(app)
        if process is not None:
            process = process._replace(sink=LogTap(process.sink, self.control))
            loggers = StatLoggers(deployment, surface=surface, epoch=self.conductor.epoch, process=process)
            self.conductor.watch = loggers.went_on
            app = RequestLogMiddleware(app, process=process)
        self.app = app
        for deed in deeds:
            self.conductor.at(deed.at, partial(deed.act, self.control))

    def close(self) -> None:
        """Write the last of the request log."""
        self._close_log()
