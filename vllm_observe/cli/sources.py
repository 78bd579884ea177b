"""Where ``status`` looks: a vLLM server itself, or a sidecar that watches one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.engine.address import Address
from vllm_observe.engine.command_line import command_line_of
from vllm_observe.engine.fetch import Fetcher
from vllm_observe.engine.limits import LimitsBook, LimitsReader
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.engine.watch import EngineWatch
from vllm_observe.errors import ConfigError, ScrapeError, ScrapeFailure
from vllm_observe.model import Limits, LimitsSource, ServiceClass
from vllm_observe.serve.state import State, engine_state
from vllm_observe.serve.windows import LookBack
from vllm_observe.thresholds import STALE_AFTER_INTERVALS, STALL_AFTER_S, TARGETS

__all__ = ["DefaultSource", "SidecarOptions", "SidecarSource", "Source", "VllmOptions", "VllmSource"]

#: Seconds that an answer may take.
_TIMEOUT_S = 4.0


class Source(Protocol):
    """What can be looked at."""

    @property
    def name(self) -> str:
        """Who is asked, in a few words for a person."""

    def look(self) -> State:
        """Look once.

        Raises:
            ScrapeError: there is no state to show.
        """


# --- vLLM itself ----------------------------------------------------------------------------------


class VllmOptions(NamedTuple):
    """How to ask a vLLM server."""

    url: str
    metrics_path: str = "/metrics"
    max_num_seqs: int | None = None
    token_file: Path | None = None
    ca_file: Path | None = None


class VllmSource:
    """Asks a vLLM server itself, as a sidecar would. What one look cannot tell, later ones do.

    Args:
        options: how to ask.
        interval: seconds between two looks.
        clock: times the looks.

    Raises:
        ConfigError: the address is none.
    """

    name = "asked directly"

    def __init__(self, options: VllmOptions, *, interval: float, clock: Clock) -> None:
        self._url = options.url
        self._clock = clock
        fetcher = Fetcher(
            url=options.url,
            metrics_path=options.metrics_path,
            timeout=_TIMEOUT_S,
            token_file=options.token_file,
            ca_file=options.ca_file,
            clock=clock,
        )
        tracker = EngineTracker(
            clock=clock, stall_after=STALL_AFTER_S, stale_after=STALE_AFTER_INTERVALS * interval
        )
        self._watch = EngineWatch(fetcher=fetcher, tracker=tracker, clock=clock)
        self._limits = LimitsBook(clock=clock)
        self._limits.tell(Limits(source=LimitsSource.SETTING, max_num_seqs=options.max_num_seqs))
        self._reader = LimitsReader(
            book=self._limits,
            get_json=fetcher.get_json,
            command_line=command_line_of(Address.parse(options.url)),
            clock=clock,
        )
        self._looks = LookBack()

    def look(self) -> State:
        """Look once. A look that fails gives a state too, and that tells why."""
        last, restarts = self._watch.look, self._watch.tracker.restarts
        with contextlib.suppress(ScrapeError):  # the watch keeps it, and the state tells it
            self._looks.add(self._watch.scrape())
            if last is not None and self._watch.tracker.restarts > restarts:
                self._reader.restarted(last_seen=last.at)
            self._reader.refresh()
        return engine_state(
            self._watch,
            self._looks.earlier,
            limits=self._limits.limits_for,
            service_class=ServiceClass.INTERACTIVE,
            targets=TARGETS[ServiceClass.INTERACTIVE],
            url=self._url,
            clock=self._clock,
        )


# --- A sidecar ------------------------------------------------------------------------------------

_STATE_PATH = "/api/v1/state"
_NO_SIDECAR = (
    "what answers there is no sidecar's admin API: give --sidecar the address of its --admin-listen, "
    "or ask a vLLM itself with --vllm-url"
)
#: What a failed request means here, where the fetcher's own words are about a vLLM.
_FAILURES = {
    ScrapeFailure.CONNECTION: (
        "no connection: is the sidecar up, is this its --admin-listen address, "
        "and its certificate trusted (--scrape-ca-file)?"
    ),
    ScrapeFailure.TIMEOUT: f"no whole answer within {_TIMEOUT_S:g} s: is the sidecar hung?",
    ScrapeFailure.AUTH: "it wants a token: name the file that holds the right one with --token-file",
    ScrapeFailure.HTTP_SERVER: "the sidecar failed to answer: its log says why",
}


class SidecarOptions(NamedTuple):
    """How to ask a sidecar."""

    url: str
    token_file: Path | None = None
    ca_file: Path | None = None


class SidecarSource:
    """Asks a sidecar for the state that it sees.

    Raises:
        ConfigError: the address is none.
    """

    def __init__(self, options: SidecarOptions, *, clock: Clock) -> None:
        try:
            address = Address.parse(options.url)
        except ConfigError:
            raise ConfigError(
                "--sidecar must be an http or https address with a host, such as http://127.0.0.1:9810"
            ) from None
        self._where = address.show(address.prefix)
        self.name = f"seen by the sidecar at {self._where}"
        self._fetcher = Fetcher(
            url=options.url,
            metrics_path=_STATE_PATH,
            timeout=_TIMEOUT_S,
            token_file=options.token_file,
            ca_file=options.ca_file,
            clock=clock,
        )

    def look(self) -> State:
        """Ask once.

        Raises:
            ScrapeError: the sidecar does not tell.
        """
        try:
            return msgspec.json.decode(self._fetcher.fetch().body, type=State)
        except ScrapeError as error:
            raise self._failed(error.reason) from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise self._failed(ScrapeFailure.MALFORMED) from None

    def _failed(self, reason: ScrapeFailure) -> ScrapeError:
        return ScrapeError(reason, f"sidecar at {self._where}: {_FAILURES.get(reason, _NO_SIDECAR)}")


# --- Whichever is there ---------------------------------------------------------------------------


class DefaultSource:
    """Asks the sidecar if it is there, and else vLLM itself; the first look decides."""

    def __init__(self, *, sidecar: Source, vllm: Source) -> None:
        self._sidecar = sidecar
        self._vllm = vllm
        self._chosen: Source | None = None

    @property
    def name(self) -> str:
        """Who is asked, in a few words for a person."""
        return (self._chosen or self._sidecar).name

    def look(self) -> State:
        """Look once, at whom the first look has found."""
        if self._chosen is not None:
            return self._chosen.look()
        try:
            state = self._sidecar.look()
        except ScrapeError as error:
            if error.reason is not ScrapeFailure.CONNECTION:
                raise
            self._chosen = self._vllm
            return self._vllm.look()
        self._chosen = self._sidecar
        return state
