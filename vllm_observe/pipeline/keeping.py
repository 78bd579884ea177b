"""What survives a restart: the requests, and how far the logs were read."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_observe.clock import Clock
from vllm_observe.config import Settings
from vllm_observe.errors import StoreError
from vllm_observe.logs import EventLog
from vllm_observe.model import JoinedRequest
from vllm_observe.records.checkpoint import Checkpoint
from vllm_observe.serve.instruments import Instruments
from vllm_observe.store.database import Bounds
from vllm_observe.store.protocol import Progress, RequestStore
from vllm_observe.store.sqlite import SqliteStore

__all__ = ["Keeping"]

#: Requests that the join remembers after a restart: a few minutes of a busy server, read in 0.2 s.
_REMEMBERED = 10_000

_log = EventLog("requests")


class Keeping:
    """Keeps requests and progress together in a store; without one, the positions alone in a file.

    Args:
        settings: name the store, its bounds and the file.
        instruments: show the store's rows, errors and drops.
        clock: tells the time to the store.

    Raises:
        ConfigError: the store or the file cannot be used as it is named.

    Attributes:
        store: the store; ``None`` without one.
    """

    def __init__(self, settings: Settings, *, instruments: Instruments, clock: Clock) -> None:
        self.store: RequestStore | None = None
        if settings.store is not None:
            bounds = Bounds(
                rows=settings.store_max_rows, age_s=settings.store_max_age, bytes=settings.store_max_bytes
            )
            self.store = SqliteStore(settings.store, bounds=bounds, clock=clock)
        self._checkpoint = Checkpoint(settings.checkpoint_file) if settings.checkpoint_file else None
        self._instruments = instruments
        self._requests: list[JoinedRequest] = []  # handed out since the last keeping

    def resume(self) -> Progress | None:
        """Return what an earlier process kept last; ``None`` where there was none.

        A new store continues after the positions in the file, if there is one.

        Raises:
            ConfigError: the file cannot be read.
        """
        kept = self.store.resume() if self.store is not None else None
        if kept is not None or self._checkpoint is None:
            return kept
        positions = self._checkpoint.load()
        return None if positions is None else Progress(positions=positions)

    def latest(self) -> Sequence[JoinedRequest]:
        """Return the requests that were stored last, the oldest first."""
        try:
            return self.store.latest(_REMEMBERED) if self.store is not None else ()
        except StoreError as error:
            _log.warning("requests before the restart are not remembered", error=str(error))
            return ()

    @property
    def is_used(self) -> bool:
        """Whether anything is kept at all."""
        return self.store is not None or self._checkpoint is not None

    def take(self, request: JoinedRequest) -> None:
        """Take a request that the join handed out, to be saved with the next progress."""
        if self.store is not None:
            self._requests.append(request)

    def keep(self, progress: Progress) -> None:
        """Save the requests taken and the progress made so far: in a store soon, in a file at once."""
        if self.store is not None:
            self.store.add(self._requests, progress)
            self._requests = []
        elif self._checkpoint is not None:
            self._checkpoint.save(progress.positions)

    def flush(self) -> None:
        """Have the store write; for the one thread that may wait for a disk."""
        if self.store is not None:
            self.store.flush()

    def measure(self) -> None:
        """Copy the store's own counts into the instruments, before these are shown."""
        if self.store is None:
            return
        self._instruments.gauge("vllm_observe_store_rows").set(self.store.rows)
        self._instruments.counter("vllm_observe_store_errors_total").catch_up(self.store.errors)
        for reason, requests in (("store_full", self.store.dropped), ("too_old", self.store.too_old)):
            self._instruments.counter("vllm_observe_dropped_total", reason=reason).catch_up(requests)

    def close(self) -> None:
        """Write what is left, at the end of the process."""
        if self.store is not None:
            self.store.close()
