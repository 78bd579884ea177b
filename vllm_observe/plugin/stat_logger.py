"""The stat logger that vLLM (>= 0.11.1) finds through the entry point and tells of each engine step."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase  # type: ignore[import-not-found]  # never installed here

from vllm_observe.plugin.engine_watch import EngineWatch
from vllm_observe.plugin.process import shared

__all__ = ["EngineRecordLogger"]


class EngineRecordLogger(StatLoggerBase):  # type: ignore[misc]  # so its type is not known
    """Hands what vLLM tells of one engine to an `EngineWatch`; no error of ours gets out.

    An exception in here would stop vLLM from starting, or fail every request in flight.
    """

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        """Take vLLM's configuration. vLLM constructs one for each engine, and none of its own first."""
        process = shared()
        self._fuse = process.fuse
        self._watch = self._fuse.run(
            lambda: EngineWatch(vllm_config, engine_index, version=_version(), process=process)
        )

    def record(
        self, scheduler_stats: Any = None, iteration_stats: Any = None, *_: object, **__: object
    ) -> None:
        """Take what vLLM tells after a step. Releases differ in what comes after the first two."""
        if self._watch is not None:
            self._fuse.run(self._watch.step, scheduler_stats, iteration_stats)

    def log(self) -> None:
        """Write how the engine was left; called every ten seconds, also where no step comes any more."""
        if self._watch is not None:
            self._fuse.run(self._watch.sample)

    def log_engine_initialized(self) -> None:
        """Write the limits: the engine is ready."""
        if self._watch is not None:
            self._fuse.run(self._watch.ready)


def _version() -> str | None:
    try:
        return metadata.version("vllm").partition("+")[0]
    except metadata.PackageNotFoundError:
        return None
