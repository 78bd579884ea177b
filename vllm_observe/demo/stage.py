"""What the demo's sidecar watches: the recorded vLLM with its app, or a vLLM of the user's own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from vllm_observe.clock import Clock
from vllm_observe.demo.recorded import SLOTS, VERSION, RecordedServer
from vllm_observe.demo.story import IN_FLIGHT, write_log
from vllm_observe.engine.address import Address

__all__ = ["OwnVllm", "RecordedVllm", "Stage"]

#: Seconds without a request before the load, so that both are seen.
QUIET_S = 5.0
#: What a chat that should feel alive promises. In the recorded second every first token came later.
TARGET_TTFT_S = 1.0


class Stage(AbstractContextManager["Stage"]):
    """What is watched, until the end of the block.

    Attributes:
        about: what it is, for a person.
        plan: what will happen, for a person.
        flags: the sidecar's command line for it.
        has_requests: whether there is a request log.
    """

    about: str
    plan: str
    flags: Sequence[str]
    has_requests: bool

    def start(self) -> None:
        """Begin to answer. The sidecar's process is there by now."""

    def play(self) -> None:
        """Begin with the plan. The sidecar answers by now."""

    def __exit__(self, *_: object) -> None:
        """End."""


class OwnVllm(Stage):
    """A vLLM of the user's own.

    Raises:
        ConfigError: the address is none.
    """

    def __init__(self, url: str, request_logs: Sequence[str]) -> None:
        self.about = f"your vLLM at {Address.parse(url).origin}"
        self.plan = "what it does is told every few seconds"
        self.flags = ["--vllm-url", url, *(f"--request-log={log}" for log in request_logs)]
        self.has_requests = bool(request_logs)


class RecordedVllm(Stage):
    """The recorded vLLM and the app in front of it.

    Args:
        directory: where the app writes its log.
        clock: tells both when what happens.
    """

    about = f"vLLM {VERSION} with {SLOTS} slots, as it was recorded"
    plan = (
        f"quiet until {QUIET_S:g} s, then {IN_FLIGHT} requests in flight for {SLOTS} slots; "
        f"a first token is promised within {TARGET_TTFT_S:g} s"
    )
    has_requests = True

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        self._clock = clock
        self._server = RecordedServer(clock=clock)
        self._log = directory / "requests.jsonl"
        self._stop = threading.Event()
        self._serving = threading.Thread(target=self._server.serve_forever, args=[0.1], daemon=True)
        self._logging = threading.Thread(target=self._write, daemon=True)
        self.flags = [
            *("--vllm-url", self._server.url),
            *("--request-log", str(self._log)),
            *("--max-num-seqs", str(SLOTS)),
            *("--scrape-interval", "1s"),
            *("--target-ttft", f"{TARGET_TTFT_S:g}s"),
        ]

    def start(self) -> None:
        """Begin to answer; who has asked meanwhile waited."""
        self._serving.start()

    def play(self) -> None:
        """Begin the quiet time, after which comes the load."""
        self._server.load_at = self._clock.monotonic() + QUIET_S
        self._logging.start()

    def _write(self) -> None:
        write_log(self._log, load_at=self._server.load_at, clock=self._clock, stop=self._stop)

    def __exit__(self, *_: object) -> None:
        """End both."""
        self._stop.set()
        if self._logging.is_alive():
            self._logging.join()
        if self._serving.is_alive():
            self._server.shutdown()
        self._server.server_close()
