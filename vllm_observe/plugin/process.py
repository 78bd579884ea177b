"""What the middleware and the stat logger of one process share: the composition root of the plugin."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.logfile import LogFile, open_first
from vllm_observe.plugin.response_ids import ResponseIds
from vllm_observe.plugin.say import logger
from vllm_observe.plugin.settings import Settings
from vllm_observe.plugin.writer import Writer

__all__ = ["Process", "Sink", "shared"]


class Sink(Protocol):
    """Where records go; `Writer` says what its methods do."""

    def put(self, record: dict[str, Any], /) -> None: ...  # noqa: D102
    def keep(self, name: str, record: dict[str, Any], /) -> None: ...  # noqa: D102


class Process(NamedTuple):
    """The parts of the plugin that exist once in a process, and its clocks."""

    settings: Settings
    fuse: Fuse
    sink: Sink
    response_ids: ResponseIds
    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


@functools.cache  # vLLM constructs the two halves by itself, and neither knows of the other
def shared() -> Process:
    """Return this process's plugin."""
    settings, fuse = Settings.read(os.environ), Fuse()

    def open_log(head: Callable[[], bytes]) -> LogFile:
        def open_one(path: Path) -> LogFile:
            return LogFile(path, max_bytes=settings.max_bytes, files=settings.files, head=head)

        log = open_first(settings.logs, open_one)
        if log.path == settings.logs[0]:
            logger.info("vllm-observe writes request records to %s", log.path)
        else:
            logger.warning("vllm-observe cannot write %s; it writes %s", settings.logs[0], log.path)
        return log

    return Process(settings, fuse, Writer(open_log=open_log, fuse=fuse), ResponseIds())
