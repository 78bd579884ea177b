"""The /metrics page of a simulated vLLM, as any release would write it.

A run knows nothing of releases: the same numbers can be shown as each of them. What a release exposes
without options is told by pages.json, the meaning of a family by its name of today, and what changed
its meaning without changing its name by the tables here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vllm_observe.model import Kind, Series
from vllm_observe.signals import canonical_name, signal
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.pages import Flavour, Row, page, releases
from vllm_observe.sim.readings import readings
from vllm_observe.sim.tally import Histogram

__all__ = ["Exposition"]

#: Signals that meant another reading before a release: deferred requests were not among those that
#: wait, and cached prompt tokens were among those of a step.
_ONCE = {"waiting": ("0.20.0", "waiting_for_capacity"), "computed_step_tokens": ("0.23.0", "step_tokens")}
#: Signals whose reading has another key than they.
_READING = {"step_tokens": "computed_step_tokens"}
#: Signals whose value is a time of day.
_TIMES = {"lora"}
#: Values of labels, and the release that brought them.
_VALUE_SINCE = {("finished_reason", "error"): "0.13.0", ("finished_reason", "repetition"): "0.17.0"}
#: V1 shows when each counter began: so a recorded 0.9.2 does, and none of V0.
_CREATED_SINCE = "0.9.2"
#: The pid of the first of several API processes.
_FIRST_PID = 101

_Labels = tuple[tuple[str, str], ...]


class Exposition:
    """Writes pages as one release would.

    Args:
        release: one of ``pages.releases()``.
        flavour: its engine.
        epoch: the time of day at the simulation's second 0.
        created: whether ``_created`` is there; ``None`` for what the release does by itself.
        api_servers: API processes; with several there is no ``_created``, and some gauges of some
            releases have a child for each process.

    Raises:
        ValueError: the release is not known, or does not have that engine, or there is no process.
    """

    def __init__(
        self,
        release: str,
        *,
        flavour: Flavour = Flavour.V1,
        epoch: float = 0.0,
        created: bool | None = None,
        api_servers: int = 1,
    ) -> None:
        if api_servers < 1:
            raise ValueError("a server has at least one API process")
        page(release, flavour)  # so that a wrong one is told at once
        self._release = release
        self._flavour = flavour
        self._place = releases().index(release)
        self._epoch = epoch
        self._processes = [str(_FIRST_PID + number) for number in range(api_servers)]
        by_itself = flavour is Flavour.V1 and api_servers == 1 and self._since(_CREATED_SINCE)
        self._created = by_itself if created is None else created

    def text(self, deployment: Deployment) -> str:
        """Write the page, in Prometheus's text format 0.0.4.

        Raises:
            ValueError: V0 is to show several engines.
        """
        if self._flavour is Flavour.V0 and len(deployment.engines) > 1:
            raise ValueError("V0 has no data-parallel ranks")
        rows = page(self._release, self._flavour, lora=deployment.limits.max_loras is not None)
        return "".join(f"{line}\n" for row in rows for line in self._family(row, deployment))

    def _since(self, first: str) -> bool:
        return self._place >= releases().index(first)

    def _family(self, row: Row, deployment: Deployment) -> Iterator[str]:
        known = signal(canonical_name(row.family))
        meaning = "" if known is None else known.help
        yield from _head(row.family, row.kind, meaning)
        told = [] if known is None else readings(self._reading(known.key), deployment)
        children = [(_labels(row, labels), value) for labels, value in told if self._has(labels)]
        if known is not None and known.key in _TIMES:
            children = [
                (labels, self._epoch + value) for labels, value in children if isinstance(value, float)
            ]
        if len(self._processes) > 1 and row.tells_process(self._place):
            children = [child for one in children for child in self._of_processes(*one)]
        for labels, value in children:
            yield from _child(row, labels, value, deployment.limits.max_model_len)
        if self._created and row.kind is not Kind.GAUGE and children:
            name = f"{_stem(row)}_created"
            started = self._epoch + deployment.started_at
            yield from _head(name, Kind.GAUGE, meaning)
            for labels, _ in children:
                yield f"{Series(name, labels).text} {started!r}"

    def _of_processes(self, labels: _Labels, value: float | Histogram) -> Iterator[tuple[_Labels, float]]:
        """Yield a child for each process: the engine tells one of them, so the others have 0."""
        for process in self._processes:
            shown = value if process == self._processes[0] and not isinstance(value, Histogram) else 0.0
            yield tuple(sorted((*labels, ("pid", process)))), shown

    def _reading(self, key: str) -> str:
        reading = _READING.get(key, key)
        since, once = _ONCE.get(reading, (None, reading))
        return reading if since is None or self._since(since) else once

    def _has(self, labels: Mapping[str, str]) -> bool:
        return all(self._since(_VALUE_SINCE.get(label, releases()[0])) for label in labels.items())


def _stem(row: Row) -> str:
    return row.family.removesuffix("_total") if row.kind is Kind.COUNTER else row.family


def _head(name: str, kind: Kind, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind.value}"


def _labels(row: Row, told: Mapping[str, str]) -> _Labels:
    """Give a child the labels of its release; what the simulation does not know is None, as in vLLM."""
    return tuple((name, told.get(name, "None")) for name in sorted(row.labels))


def _child(row: Row, labels: _Labels, value: float | Histogram, max_model_len: int) -> Iterator[str]:
    def line(suffix: str, number: float, *le: tuple[str, str]) -> str:
        return f"{Series(row.family + suffix, tuple(sorted((*labels, *le)))).text} {float(number)!r}"

    if not isinstance(value, Histogram):
        yield line("", value)
        return
    yield line("_sum", value.sum)
    if row.kind is Kind.HISTOGRAM:
        bounds = row.bounds(max_model_len)
        for bound, number in zip(bounds, value.up_to(bounds), strict=True):
            yield line("_bucket", number, ("le", repr(bound)))
        yield line("_bucket", value.count, ("le", "+Inf"))
    yield line("_count", value.count)
