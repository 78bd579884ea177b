"""What a rendering may be told, and what it makes of metric names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from vllm_observe.dashboards.panels import Panel
from vllm_observe.dashboards.queries import Expr, chosen
from vllm_observe.dashboards.variables import SIDECAR, VARIABLES
from vllm_observe.errors import ConfigError
from vllm_observe.model import Kind
from vllm_observe.signals import NEWEST, OLDEST, OWN, SIGNALS, Signal

__all__ = ["Options"]

_PREFIX = "vllm:"
#: Without a mark at its end a prefix would run into the names: ``vllmnum_requests_running``.
_VALID_PREFIX = re.compile("(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?[_:]")
_VALID_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:rc\d+)?(?:\.?post(\d+))?(?:\+[a-z0-9.]+)?")
_NAME = re.compile(rf"{_PREFIX}[a-zA-Z0-9_]+")
#: Which servers are of a class only a sidecar tells.
_OF_CLASS = re.compile(r" unless on \([^()]*\) vllm_observe_target_info\{[^{}]*\}")
# Only metrics of ours have a profile. One may still stand beside a choice that exists.
_OF_PROFILE = ',profile=~"$profile"'
#: A gauge as it stands: of what it was before or over a time there are no two names at once.
_INSTANT = re.compile(rf"({_PREFIX}[a-zA-Z0-9_]+)(\{{[^{{}}]*\}})(?!\[| offset)")
_PART = re.compile("_(?:bucket|count|sum)$")
_VERSION_PARTS = 3

_BY_NAME = {signal.name: signal for signal in SIGNALS}
_OWN_NAMES = frozenset(metric.name for metric in OWN)


def _release(version: str) -> tuple[int, ...]:
    """Make a release comparable: ``0.11.0.post2`` lies between ``0.11.0`` and ``0.11.1``.

    A candidate has the names of its release, and so has a build for another platform.
    """
    found = _VALID_VERSION.fullmatch(version)
    if found is None:
        raise ConfigError(f"--vllm-version {version!r} is no release: write it like 0.10.2")
    numbers = tuple(int(number) for number in found[1].split("."))
    return (*numbers, *(0,) * (_VERSION_PARTS - len(numbers)), int(found[2] or 0))


@dataclass(frozen=True, kw_only=True)
class Options:
    """How boards are rendered.

    By default they are for Prometheus scraping the sidecar, or a vLLM of today. With another prefix or an
    older release they are for Prometheus scraping that vLLM itself: then no metric of ours exists, and what
    would show one is left out.

    Attributes:
        metric_prefix: what the metrics' names begin with in place of ``vllm:``, such as ``ray_vllm:``.
        vllm_version: the release whose names are used; ``None`` for today's.

    Raises:
        ConfigError: the prefix or the release cannot be.
    """

    metric_prefix: str = _PREFIX
    vllm_version: str | None = None

    def __post_init__(self) -> None:
        if not _VALID_PREFIX.fullmatch(self.metric_prefix):
            raise ConfigError(
                f"--metric-prefix {self.metric_prefix!r} cannot begin a metric's name: write it like ray_vllm:"
            )
        if self.vllm_version is not None and _release(self.vllm_version) < _release(OLDEST):
            raise ConfigError(f"--vllm-version {self.vllm_version}: names are known from {OLDEST} on")

    @property
    def behind_sidecar(self) -> bool:
        """Whether there may be a sidecar, so that our own metrics can exist."""
        return self.vllm_version is None and self.metric_prefix == _PREFIX

    @property
    def newer_than_known(self) -> bool:
        """Whether the release came after the last one whose names are known; it is taken for that one."""
        return self.vllm_version is not None and _release(self.vllm_version) > _release(NEWEST)

    def link(self, url: str) -> str:
        """Return a link without the variables that such a board has not."""
        if self.behind_sidecar:
            return url
        own = [name for name, variable in VARIABLES.items() if variable.own]
        for name in (*own, SIDECAR):
            url = url.replace(f"&${{{name}:queryparam}}", "")
        return url

    def text(self, promql: str) -> str:
        """Put PromQL, or a variable's query, into the names that are asked for."""
        if self.behind_sidecar:
            return chosen(promql, lambda _: True)
        promql = _OF_CLASS.sub("", promql).replace(_OF_PROFILE, "")
        return _NAME.sub(self._renamed, _INSTANT.sub(self._either, chosen(promql, self._can_exist)))

    def answers(self, expr: Expr) -> bool:
        """Whether the metrics of an expression can exist."""
        return any(all(map(self._exists, way)) for way in expr.ways)

    def shows(self, panel: Panel) -> bool:
        """Whether a panel can ever have something to show."""
        return any(self.answers(query.expr) for query in panel.asked)

    def _can_exist(self, promql: str) -> bool:
        return not any(name in promql for name in _OWN_NAMES) and all(
            self._exists(_family(name)) for name in _NAME.findall(promql)
        )

    def _either(self, found: re.Match[str]) -> str:
        """Ask for a gauge under both names, where some of a release's engines still have the former."""
        name, labels = found.groups()
        signal = _BY_NAME.get(name)
        if signal is None or signal.kind is not Kind.GAUGE:
            return found[0]
        names = list(_names_in(signal, self.vllm_version))
        return f"({' or '.join(one + labels for one in names)})" if names[1:] else found[0]

    def _exists(self, metric: str) -> bool:
        if metric in _OWN_NAMES:
            return self.behind_sidecar
        return metric not in _BY_NAME or metric in self._exposed

    @cached_property
    def _exposed(self) -> dict[str, str]:
        """For each signal that the release has, today's name and that release's."""
        names = {name: next(_names_in(signal, self.vllm_version), None) for name, signal in _BY_NAME.items()}
        return {name: exposed for name, exposed in names.items() if exposed is not None}

    def _renamed(self, found: re.Match[str]) -> str:
        name = found[0]
        family = _family(name)
        exposed = self._exposed.get(family, family)
        return self.metric_prefix + exposed.removeprefix(_PREFIX) + name.removeprefix(family)


def _family(name: str) -> str:
    """Return the family of a series' name."""
    return name if name in _BY_NAME else _PART.sub("", name)


def _names_in(signal: Signal, version: str | None) -> Iterator[str]:
    """Yield the names under which a release exposes a signal, today's first."""
    if version is None:
        if signal.last is None:
            yield signal.name
        return
    asked = _release(version)
    if _release(signal.first) <= asked and (signal.last is None or asked <= _release(signal.last)):
        yield signal.name
    for name in signal.former:
        if _release(name.first) <= asked <= _release(name.last):
            yield name.name
