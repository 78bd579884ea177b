"""The plugin's two halves around the simulation: what vLLM would tell them, told by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vllm_observe.clock import Clock
from vllm_observe.model import EngineKey
from vllm_observe.plugin.engine_watch import EngineWatch
from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.logfile import LogFile
from vllm_observe.plugin.process import Process, Sink
from vllm_observe.plugin.response_ids import ResponseIds
from vllm_observe.plugin.settings import Settings
from vllm_observe.plugin.writer import Writer
from vllm_observe.sim.control import Control
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.engine import Engine
from vllm_observe.sim.http.surface import Surface
from vllm_observe.sim.requests import Ended

__all__ = ["LogTap", "StatLoggers", "plugin_for"]

#: Seconds between two times that vLLM has its loggers log.
_LOG_S = 10.0


def plugin_for(log: Path, clock: Clock) -> tuple[Process, Callable[[], None]]:
    """Return a plugin that writes to a log, and what writes the last of it and closes it."""
    settings, fuse = Settings(logs=(log,)), Fuse()

    def open_log(head: Callable[[], bytes]) -> LogFile:
        return LogFile(log, max_bytes=settings.max_bytes, files=settings.files, head=head)

    writer = Writer(open_log=open_log, fuse=fuse)
    process = Process(settings, fuse, writer, ResponseIds(), wall=clock.wall, monotonic=clock.monotonic)
    return process, writer.close


class LogTap:
    """A sink that is shut while the log is stopped: what comes then is lost.

    Args:
        sink: takes the rest.
        control: says whether it is stopped.
    """

    def __init__(self, sink: Sink, control: Control) -> None:
        self._sink = sink
        self._control = control

    def put(self, record: dict[str, Any], /) -> None:
        """Pass a record on."""
        if not self._control.log_stopped:
            self._sink.put(record)

    def keep(self, name: str, record: dict[str, Any], /) -> None:
        """Pass a record on that every file begins with."""
        self._sink.keep(name, record)


class StatLoggers:
    """What vLLM does with its stat loggers: one for each engine of the process that runs.

    Args:
        deployment: whose engines they are told of.
        surface: what the release tells; before 0.11.1 it looks for no loggers.
        epoch: the time of day at the deployment's second 0.
        process: the plugin.
    """

    def __init__(self, deployment: Deployment, *, surface: Surface, epoch: float, process: Process) -> None:
        self._deployment = deployment
        self._surface = surface
        self._epoch = epoch
        self._process = process
        self._engines: Sequence[Engine] = ()
        self._watches: dict[EngineKey, EngineWatch] = {}
        self._steps: dict[EngineKey, int] = {}
        self._logged_at = deployment.now

    def went_on(self, ended: Sequence[Ended]) -> None:
        """Tell each engine's logger of the steps since the last time, and of the requests that ended."""
        if not self._surface.has_plugins or not self._deployment.loaded:
            return
        if self._engines is not self._deployment.engines:
            self._begin()
        for engine in self._engines:
            finished = [one for one in ended if one.finished and one.engine == engine.key]
            if engine.scheduler.steps > self._steps[engine.key] or finished:
                self._steps[engine.key] = engine.scheduler.steps
                self._watches[engine.key].step(self._of_engine(engine), self._of_requests(finished))
        if self._deployment.now - self._logged_at >= _LOG_S:
            self._logged_at = self._deployment.now
            for watch in self._watches.values():
                watch.sample()

    def _begin(self) -> None:
        self._engines = self._deployment.engines
        for rank, engine in enumerate(self._engines):
            watch = EngineWatch(self._config(), rank, version=self._surface.release, process=self._process)
            self._watches[engine.key], self._steps[engine.key] = watch, 0
            watch.ready()

    def _config(self) -> Any:
        limits = self._deployment.limits
        return SimpleNamespace(
            scheduler_config=limits,
            cache_config=limits,
            model_config=SimpleNamespace(
                served_model_name=self._deployment.model, max_model_len=limits.max_model_len
            ),
        )

    def _of_engine(self, engine: Engine) -> Any:
        gauges = engine.gauges
        told = SimpleNamespace(
            num_running_reqs=gauges.running,
            num_waiting_reqs=gauges.waiting - gauges.deferred,
            kv_cache_usage=gauges.kv_usage,
        )
        if self._surface.tells_deferred:
            told.num_skipped_waiting_reqs = gauges.deferred
        return told

    def _of_requests(self, finished: Sequence[Ended]) -> Any:
        return SimpleNamespace(
            finished_requests=[self._of_request(one) for one in finished],
            iteration_timestamp=self._epoch + finished[-1].at if finished else None,
        )

    def _of_request(self, ended: Ended) -> Any:
        told = SimpleNamespace(
            finish_reason=ended.end.value,
            e2e_latency=ended.e2e_s,
            queued_time=ended.queue_s,
            prefill_time=ended.prefill_s,
            decode_time=ended.decode_s,
            mean_time_per_output_token=ended.tpot_s,
            num_prompt_tokens=ended.prompt_tokens,
            num_generation_tokens=ended.output_tokens,
            max_tokens_param=ended.arrival.max_tokens,
        )
        if self._surface.names_requests:
            told.request_id = ended.arrival.request_id
        if self._surface.counts_cached:
            told.num_cached_tokens = ended.cached_tokens
        if self._surface.counts_preemptions:
            told.num_preemptions = ended.preemptions
        return told
