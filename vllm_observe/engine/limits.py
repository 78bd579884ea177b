"""What an engine may do at most: who said it, whom to believe, and when to ask again.

vLLM exposes none of this among its metrics, in any release.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.engine.limit_sources import CEILINGS, from_server_info, known_limits, version_of
from vllm_observe.model import Limits, LimitsSource

__all__ = ["LimitsBook", "LimitsReader", "kv_capacity"]

#: Engines that the book has room for, however many a log names.
_MAX_ENTRIES = 4096
#: Seconds from one look at the sources to the next: the first, then twice as long each time, up to the
#: second. Each look puts two lines into vLLM's access log.
_SOON_S, _RARELY_S = 15.0, 300.0

_FIELDS = (*CEILINGS, "vllm_version")
_SLOTS = ("max_num_seqs", "max_num_active_seqs")
#: What vLLM says once when it starts. The others are asked.
_SAID_AT_START = frozenset({LimitsSource.PLUGIN, LimitsSource.ENGINE_LOG})


class LimitsBook:
    """Holds what each source said last, for each engine. Any thread may use it.

    A source's new statement takes the place of its last one as a whole, so that a limit which it no
    longer names is forgotten.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._told: dict[tuple[LimitsSource, str | None], tuple[float, Limits]] = {}

    def tell(self, limits: Limits) -> None:
        """Take what a source says; a number that cannot be believed counts as not said."""
        believed = known_limits(limits.source, msgspec.structs.asdict(limits))
        version = version_of({"version": limits.vllm_version})
        believed = msgspec.structs.replace(believed, engine=limits.engine, vllm_version=version)
        key = (limits.source, limits.engine)
        with self._lock:
            if key in self._told or len(self._told) < _MAX_ENTRIES:
                self._told[key] = (self._clock.wall(), believed)

    def limits_for(self, engine: str) -> Limits:
        """Return what is known of an engine, each limit from the best source that names it.

        ``source`` says where the slots come from: ``max_num_seqs``, or ``max_num_active_seqs`` where
        nobody names the former.
        """
        with self._lock:
            said = [
                self._told[key][1]
                for source in LimitsSource
                for key in ((source, engine), (source, None))
                if key in self._told
            ]
        known = Limits(engine=engine)
        for limits in reversed(said):
            stated = {name: value for name in _FIELDS if (value := getattr(limits, name)) is not None}
            known = msgspec.structs.replace(known, **stated)
        slots = [limits for name in _SLOTS for limits in said if getattr(limits, name) is not None]
        return msgspec.structs.replace(known, source=slots[0].source) if slots else known

    def forget(self, *, last_seen: float) -> None:
        """Drop what was said of a vLLM that is gone; the setting stays.

        A new vLLM says its limits before it answers a scrape, so before anybody can know that it is
        new. What was said since the old one was last seen stays, therefore.

        Args:
            last_seen: the time of the last good scrape of the old one, in epoch seconds.
        """
        with self._lock:
            self._told = {
                (source, engine): (at, limits)
                for (source, engine), (at, limits) in self._told.items()
                if source is LimitsSource.SETTING or (source in _SAID_AT_START and at > last_seen)
            }


class LimitsReader:
    """Asks the sources that can be asked, and tells the book.

    Args:
        book: where to write down what they say.
        get_json: what a path of the vLLM server answers; ``None`` where it gives no JSON.
        command_line: the limits on the command line of the server's process, if it can be seen.
        clock: says when to ask again.
    """

    def __init__(
        self,
        *,
        book: LimitsBook,
        get_json: Callable[[str], object | None],
        command_line: Callable[[], Limits | None],
        clock: Clock,
    ) -> None:
        self._book = book
        self._get_json = get_json
        self._command_line = command_line
        self._clock = clock
        self._anew = threading.Event()
        self._anew.set()
        self._due = self._pause = 0.0
        self._server = Limits(source=LimitsSource.SERVER_INFO)

    def refresh(self) -> None:
        """Ask, if it is time to.

        To be called after good scrapes, since a server that is down knows nothing, and from a thread
        that can wait: each of two requests may take as long as a scrape.
        """
        now = self._clock.monotonic()
        if self._anew.is_set():
            self._anew.clear()
            self._due, self._pause = now, _SOON_S
            self._server = Limits(source=LimitsSource.SERVER_INFO)
        if now < self._due:
            return
        self._due, self._pause = now + self._pause, min(2 * self._pause, _RARELY_S)
        # No answer says nothing against the last one: a busy server may give none.
        server = from_server_info(self._get_json("/server_info?config_format=json")) or self._server
        version = version_of(self._get_json("/version")) or self._server.vllm_version
        self._server = msgspec.structs.replace(server, vllm_version=version)
        started = self._command_line()
        if self._anew.is_set():  # a new vLLM came up meanwhile: who knows which of the two said this
            return
        self._book.tell(self._server)
        if started is not None:
            self._book.tell(started)

    def restarted(self, *, last_seen: float) -> None:
        """Forget the vLLM that was last seen then; the next refresh asks the new one at once."""
        self._book.forget(last_seen=last_seen)
        self._anew.set()


def kv_capacity(labels: Mapping[str, str], *, engines: int = 1) -> int | None:
    """Return how many tokens one engine's KV cache holds, from the labels of ``vllm:cache_config_info``.

    Since 0.24 vLLM says so itself. Before that it is the blocks times their size, where both are known
    and mean that: beside state-space layers the size is another, and several engines add up their blocks.

    Args:
        labels: of the engine's series.
        engines: how many engines the server has.
    """
    said = _count(labels, "kv_cache_size_tokens")
    if said is not None:
        return said
    blocks, size = _count(labels, "num_gpu_blocks"), _count(labels, "block_size")
    if blocks is None or size is None or engines > 1 or _count(labels, "mamba_block_size") is not None:
        return None
    return blocks * size


def _count(labels: Mapping[str, str], name: str) -> int | None:
    """Read a positive whole number; "None" is what Python prints for one that is not known."""
    text = labels.get(name, "")
    return int(text) or None if re.fullmatch(r"[0-9]{1,15}", text) else None
