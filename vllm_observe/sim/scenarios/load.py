"""A workload over HTTP, in real time: each client waits, gives up, and tries again as it would."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from vllm_observe.clock import Clock
from vllm_observe.model import EdgeRecord
from vllm_observe.sim.records import line
from vllm_observe.sim.requests import Arrival
from vllm_observe.sim.scenarios.asking import Asking
from vllm_observe.sim.scenarios.clients import Clients, Heard

__all__ = ["Load"]

#: The longest wait between two looks whether it is to stop, in seconds.
_LOOK_S = 0.2
#: Answers that are remembered for the prompts of next turns.
_MOST_ANSWERS = 5_000


class _Heard(NamedTuple):
    """A request that ended, on its way from its thread to the clients."""

    asking: Asking
    how: Heard
    record: EdgeRecord


class Load:
    """Sends what clients have to send to a server, and writes the app's request log.

    One thread for each request in flight: enough for some hundreds of them.

    Args:
        clients: who asks.
        url: the server, such as ``http://127.0.0.1:8000``.
        model: the model that is asked for.
        clock: tells the time; the clients' second 0 is when ``run`` begins.
        log: takes each request's line when it ended, newline included; called by one thread.
    """

    def __init__(
        self, clients: Clients, *, url: str, model: str, clock: Clock, log: Callable[[bytes], object]
    ) -> None:
        self._clients = clients
        self._url = url
        self._model = model
        self._clock = clock
        self._log = log
        self._heard: SimpleQueue[_Heard] = SimpleQueue()
        self._open: dict[Asking, threading.Thread] = {}
        self._answers: OrderedDict[str, str] = OrderedDict()

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer now."""
        return len(self._open)

    def run(self, stop: threading.Event, *, seconds: float = math.inf) -> None:
        """Send until it is over or stopped; then leave all that is in flight.

        Args:
            stop: ends it.
            seconds: when it is over.
        """
        began = self._clock.monotonic()
        while not stop.is_set() and (now := self._clock.monotonic() - began) < seconds:
            for arrival in self._clients.due(now):
                self._ask(arrival)
            self._hear(began, wait=min(max(self._clients.next_at - now, 0.0), seconds - now, _LOOK_S))
        for asking in self._open:
            asking.stop()
        for thread in list(self._open.values()):
            thread.join()
        self._hear(began, wait=0.0)

    def _ask(self, arrival: Arrival) -> None:
        asking = Asking(
            url=self._url, arrival=arrival, model=self._model, said=self._answers.get, clock=self._clock
        )
        thread = threading.Thread(target=self._run, args=(asking,), name=arrival.request_id, daemon=True)
        self._open[asking] = thread
        thread.start()

    def _run(self, asking: Asking) -> None:
        self._heard.put(_Heard(asking, *asking.run()))

    def _hear(self, began: float, *, wait: float) -> None:
        """Wait so long for a request to end, and take note of all that did."""
        try:
            heard = self._heard.get(timeout=wait) if wait > 0 else self._heard.get_nowait()
            while True:
                self._ended(heard, self._clock.monotonic() - began)
                heard = self._heard.get_nowait()
        except Empty:
            return

    def _ended(self, heard: _Heard, now: float) -> None:
        asking = heard.asking
        del self._open[asking]
        if asking.text:
            self._answers[asking.arrival.answer.content] = asking.text
            while len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)
        self._log(line(heard.record))
        self._clients.hear(asking.arrival, heard.how, now)
