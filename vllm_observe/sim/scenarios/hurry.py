"""A scenario in a hurry: the same story told in a minute or two, at the same rates."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from vllm_observe.sim.scenarios.incidents import Deed, Incident
from vllm_observe.sim.scenarios.scenario import Scenario
from vllm_observe.sim.scenarios.workloads import Workload

__all__ = ["hurried"]


def hurried(
    scenario: Scenario, *, before: float = 20.0, during: float = 60.0, after: float = 30.0
) -> Scenario:
    """Return a scenario that leaves out what is longer than needed to see it.

    What lies before the first incident, from its begin to the last one's end, and after that is pressed
    together, and so are restarts; what requests and answers take stays as it is. One without incidents is
    cut.

    Args:
        scenario: the whole story.
        before: seconds to the first incident.
        during: seconds from there to the end of the last.
        after: seconds from there to the end.
    """
    whole = before + during + after
    if not scenario.incidents:
        return replace(scenario, seconds=min(whole, scenario.seconds))
    start = min(incident.start for incident in scenario.incidents)
    end = max(incident.end for incident in scenario.incidents)
    press = _Press((0.0, start, end, scenario.seconds), (0.0, before, before + during, whole))
    return replace(
        scenario,
        seconds=whole,
        load_s=scenario.load_s * during / (end - start),
        workload=press.workload(scenario.workload),
        incidents=tuple(map(press.incident, scenario.incidents)),
    )


class _Press:
    """Moves times between some marks to between others, evenly."""

    def __init__(self, marks: Sequence[float], places: Sequence[float]) -> None:
        self._marks = marks
        self._places = places

    def __call__(self, when: float) -> float:
        if when in {math.inf, self._marks[-1]}:
            return when if when == math.inf else self._places[-1]
        left = min(bisect_right(self._marks, when), len(self._marks) - 1) - 1
        (a, b), (low, high) = self._marks[left : left + 2], self._places[left : left + 2]
        return low + (when - a) * (high - low) / (b - a)

    def workload(self, workload: Workload) -> Workload:
        return tuple(replace(one, since=self(one.since), until=self(one.until)) for one in workload)

    def incident(self, incident: Incident) -> Incident:
        return replace(
            incident,
            start=self(incident.start),
            end=self(incident.end),
            deeds=tuple(Deed(self(deed.at), deed.act) for deed in incident.deeds),
            traffic=self.workload(incident.traffic),
        )
