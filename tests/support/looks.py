"""A server that is looked at in a test: its pages one after the other, and the state that they make."""

from __future__ import annotations

from pathlib import Path

from vllm_observe.clock import ManualClock
from vllm_observe.engine.fetch import Fetched
from vllm_observe.engine.tracker import EngineTracker
from vllm_observe.engine.watch import EngineWatch, Look
from vllm_observe.errors import ScrapeError
from vllm_observe.model import Limits, LimitsSource, ServiceClass
from vllm_observe.serve.state import State, engine_state
from vllm_observe.thresholds import TARGETS

DATA = Path(__file__).parent.parent / "data"
EIGHT_SLOTS = Limits(source=LimitsSource.SERVER_INFO, max_num_seqs=8, vllm_version="0.32.0")


def page(name: str) -> bytes:
    """A page of a real vLLM, by release and file: ``vllm-0.32.0/idle.prom``."""
    return (DATA / "captures" / name).read_bytes()


class Looked:
    """A watch of a server whose pages a test gives, by hand or by the name of a capture."""

    def __init__(self, *, stale_after: float = 15.0, stall_after: float = 300.0) -> None:
        self.clock = ManualClock()
        self.earlier: Look | None = None
        self.limits = EIGHT_SLOTS
        self.url = "http://vllm:8000"
        self._answer: bytes | ScrapeError = b""
        tracker = EngineTracker(clock=self.clock, stall_after=stall_after, stale_after=stale_after)
        self.watch = EngineWatch(fetcher=self, tracker=tracker, clock=self.clock)

    def fetch(self) -> Fetched:
        """Answer as a server does."""
        if isinstance(self._answer, ScrapeError):
            raise self._answer
        return Fetched(self._answer, "text/plain; version=0.0.4", 0.002)

    def sees(self, answer: str | bytes | ScrapeError, *, after: float = 0.0) -> Look | None:
        """Look some seconds later, at a capture, a page or a failure."""
        self.clock.advance(after)
        self._answer = page(answer) if isinstance(answer, str) else answer
        try:
            return self.watch.scrape()
        except ScrapeError:
            return None

    @property
    def state(self) -> State:
        """The state of the server now."""
        return engine_state(
            self.watch,
            self.earlier,
            limits=lambda _: self.limits,
            service_class=ServiceClass.INTERACTIVE,
            targets=TARGETS[ServiceClass.INTERACTIVE],
            url=self.url,
            clock=self.clock,
        )


def seen(*answers: str | bytes | ScrapeError, every: float = 5.0) -> State:
    """The state after some looks, the first of which every window begins with."""
    server = Looked()
    for answer in answers:
        look = server.sees(answer, after=every)
        server.earlier = server.earlier or look
    return server.state
