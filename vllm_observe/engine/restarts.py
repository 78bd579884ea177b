"""Restarts: a counter that fell, or a process that started later, is a new process."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_observe.engine.sampling import known
from vllm_observe.model import Family, Series
from vllm_observe.signals import BY_KEY

__all__ = ["PROCESS_START", "RestartWatch"]

#: When the server's process started. Absent with several API processes.
PROCESS_START = "process_start_time_seconds"

#: The samples that never fall while a process lives, by family: a counter's own, a histogram's totals.
_COUNTERS = {
    (name := BY_KEY[key].name): (name, name + "_count", name + "_sum")
    for key in (
        "prompt_tokens",
        "generation_tokens",
        "finished",
        "preemptions",
        "step_tokens",
        "http_requests",
    )
}
#: Counters remembered beside those of the latest scrape. A server has a few dozen.
_REMEMBERED = 10_000


class RestartWatch:
    """Counts the restarts of one server, each once, however many engines and counters show it.

    Each series is compared with its own last value: a family, or one finish reason, that is missing
    from a scrape is no restart, and its value of before is still there to compare with later.

    Attributes:
        count: restarts seen.
    """

    def __init__(self) -> None:
        self.count = 0
        self._values: dict[Series, float] = {}
        self._started: float | None = None

    def observe(self, families: Iterable[Family]) -> bool:
        """Take a good scrape; say whether the process is another than at the scrape before."""
        values: dict[Series, float] = {}
        started: float | None = None
        for family in families:
            names = _COUNTERS.get(family.name)
            if names:
                values.update((series, value) for series, value, _ in family.samples if series.name in names)
            elif family.name == PROCESS_START:
                started = max((sample.value for sample in family.samples), default=None)
        values = {series: value for series, value in values.items() if known(value) is not None}
        restarted = self._began_later(started) or self._fell(values)
        if restarted:
            # What the old process said must not be compared with a second time: an engine may come
            # back some scrapes after its neighbour.
            self.count += 1
            self._values, self._started = {}, None
        self._remember(values, started)
        return restarted

    def _began_later(self, started: float | None) -> bool:
        return started is not None and self._started is not None and started > self._started

    def _fell(self, values: dict[Series, float]) -> bool:
        return any(value < self._values.get(series, value) for series, value in values.items())

    def _remember(self, values: dict[Series, float], started: float | None) -> None:
        self._values.update(values)
        if len(self._values) > len(values) + _REMEMBERED:
            self._values = values
        if started is not None:
            self._started = started
