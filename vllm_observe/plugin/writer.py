"""The writer: a bounded queue that the event loop appends to, and a thread that empties it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import util
from typing import Any

from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.logfile import LogFile
from vllm_observe.plugin.say import logger

__all__ = ["Writer"]

#: Records that wait for the disk at most: some seconds of a server's busiest time, about 20 MB.
MOST = 20_000
#: Seconds for which records gather before they are written together.
GATHER_S = 0.2
#: Bytes to write at once: whole lines, so that other processes' come between and never within.
BATCH_BYTES = 256 * 1024
#: Seconds between two complaints about the disk or the queue.
COMPLAIN_S = 60.0
#: Seconds to wait for the thread when the process ends.
CLOSE_S = 2.0

Record = Mapping[str, Any]


class Writer:
    """Writes records as JSON lines, without ever making the caller wait.

    For one thread, the event loop's, in each process: one that was forked off gets a queue and a writing
    thread of its own.

    Args:
        open_log: opens the log; called in the thread.
        fuse: ends the plugin where the log cannot be opened.
        most: how many records may wait; what comes beyond is dropped and counted.

    Attributes:
        dropped: how many records were lost in this process, to a full queue or a full disk.
    """

    def __init__(
        self,
        *,
        open_log: Callable[[Callable[[], bytes]], LogFile],
        fuse: Fuse,
        most: int = MOST,
    ) -> None:
        self._open_log = open_log
        self._fuse = fuse
        self._most = most
        self._standing: dict[str, Record] = {}
        self._begin()

    def _begin(self) -> None:
        """Start afresh. The locks of a process that forked this one may be held for ever."""
        self._process = os.getpid()
        self._queue: deque[Record] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped = 0
        self._told = 0
        self._complained_at = -COMPLAIN_S

    def put(self, record: Record) -> None:
        """Have a record written soon. It must not be changed any more."""
        if self._process != os.getpid():
            self._begin()
        if len(self._queue) >= self._most:
            self.dropped += 1
            return
        self._queue.append(record)
        if self._thread is None:
            self._start()
        if not self._wake.is_set():
            self._wake.set()

    def keep(self, name: str, record: Record) -> None:
        """Have a record written soon, and again at the head of each later file."""
        self._standing[name] = record
        self.put(record)

    def close(self) -> None:
        """Write what waits, and end the thread; wait for that as long as a process may at its end."""
        if self._thread is not None and self._process == os.getpid():
            self._closing.set()
            self._wake.set()
            self._thread.join(CLOSE_S)

    def _start(self) -> None:
        self._thread = threading.Thread(
            target=self._fuse.run, args=(self._run,), name="vllm-observe", daemon=True
        )
        self._thread.start()
        # Other than atexit's, these are called in the processes of multiprocessing as well.
        util.Finalize(None, self.close, exitpriority=0)

    def _run(self) -> None:
        try:
            log = self._open_log(self._head)
        except OSError as error:
            self._fuse.blow(f"no log can be written: {error}")
            self._queue.clear()
            return
        closing = False
        while not closing:
            self._wake.wait()
            closing = self._closing.wait(GATHER_S)
            self._wake.clear()
            for lines in self._batches():
                self._write(log, lines)
            self._complain()
        log.close()

    def _head(self) -> bytes:
        return b"".join(map(_line, self._standing.values()))

    def _batches(self) -> Iterator[bytes]:
        batch = bytearray()
        while self._queue:
            try:
                batch += _line(self._queue.popleft())
            except (TypeError, ValueError):  # NaN, or no JSON: vLLM's numbers are not ours
                self.dropped += 1
            if len(batch) >= BATCH_BYTES:
                yield bytes(batch)
                batch.clear()
        if batch:
            yield bytes(batch)

    def _write(self, log: LogFile, lines: bytes) -> None:
        try:
            lost = log.append(lines)
        except OSError:
            lost = lines
        self.dropped += lost.count(b"\n")

    def _complain(self) -> None:
        now = time.monotonic()
        if self.dropped > self._told and now - self._complained_at >= COMPLAIN_S:
            logger.warning(
                "vllm-observe dropped %d request records: its log is full or slow", self.dropped - self._told
            )
            self._told, self._complained_at = self.dropped, now


def _line(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
