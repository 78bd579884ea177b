"""The app in front of the scenario's server, as a program: ``python -m vllm_observe.demo.app NAME LOG``.

It waits for a line with the server's address; the scenario's second 0 is then. It ends with its standard
input.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from vllm_observe.clock import SystemClock
from vllm_observe.demo.story import told
from vllm_observe.sim.control import Control
from vllm_observe.sim.scenarios.load import Load
from vllm_observe.sim.scenarios.scenario import Scenario

__all__ = ["ask", "main"]


def main(name: str, log: str) -> None:
    """Send what the scenario's users send, and write the app's request log.

    Args:
        name: the scenario.
        log: where to.
    """
    scenario, stop = told(name), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    url = sys.stdin.readline().strip()
    if not url:
        return
    threading.Thread(target=_end_with_input, args=(stop,), daemon=True).start()
    with Path(log).open("ab", buffering=0) as output:
        ask(scenario, url=url, log=output.write, stop=stop)


def ask(scenario: Scenario, *, url: str, log: Callable[[bytes], object], stop: threading.Event) -> None:
    """Send what the scenario's users send, until it is to stop.

    Args:
        scenario: what befalls the app is that its log stops; all else is done to a server of its own,
            which nobody asks.
        url: the server that is asked.
        log: takes each request's line when it ended.
        stop: ends it.
    """
    control = Control(scenario.deployment())

    def write(line: bytes) -> None:
        if not control.log_stopped:
            log(line)

    load = Load(scenario.clients(), url=url, model=scenario.model, clock=SystemClock(), log=write)
    for deed in scenario.timeline:
        timer = threading.Timer(deed.at, deed.act, (control,))
        timer.daemon = True
        timer.start()
    load.run(stop)


def _end_with_input(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
