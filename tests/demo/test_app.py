from __future__ import annotations

import threading
from dataclasses import replace

from vllm_observe.demo.app import ask
from vllm_observe.demo.story import told
from vllm_observe.sim.scenarios.incidents import Deed, Incident
from vllm_observe.sim.scenarios.settings import people


def asked(*deeds: Deed) -> list[bytes]:
    """What the app logs in a third of a second in which nobody answers."""
    incidents = (Incident(name="one", start=0.0, end=1.0, deeds=deeds),) if deeds else ()
    scenario = replace(told("steady"), workload=people(200.0), incidents=incidents)
    lines: list[bytes] = []
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    ask(scenario, url="http://127.0.0.1:1", log=lines.append, stop=stop)
    return lines


def test_the_app_logs_what_it_asks_until_its_log_stops():
    assert asked()
    assert not asked(Deed(0.0, lambda it: it.stop_log(stopped=True)))


def test_its_log_goes_on_when_the_trouble_is_over():
    stops, goes_on = (Deed(at, lambda it, at=at: it.stop_log(stopped=at < 0.1)) for at in (0.0, 0.1))

    assert asked(stops, goes_on)
