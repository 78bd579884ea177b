"""The metrics that our tables know: a release's, and the sidecar's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from vllm_observe.alerts.lint.known import BOUNDS, BOUNDS_SINCE, OPEN, VALUES
from vllm_observe.alerts.lint.vocabulary import PARTS, Metric, Vocabulary
from vllm_observe.model import Kind, LimitsSource, ServiceClass
from vllm_observe.signals import NEWEST, OWN, SIGNALS, OwnMetric, Signal, canonical_name
from vllm_observe.signals import signal as signal_named

__all__ = [
    "EXPOSED_LABELS",
    "described",
    "family_described",
    "is_ours",
    "of_release",
    "parts_of",
    "release",
    "today",
]

_OWN = {metric.name: metric for metric in OWN}
#: What labels of ours can say, of which a server shows one at a time.
_SAYS: Mapping[str, frozenset[str]] = {
    "service_class": frozenset(member.value for member in ServiceClass),
    "limits_source": frozenset(member.value for member in LimitsSource),
    "state": frozenset({"running", "waiting"}),
}
#: Labels that targets have as well as metrics.
_OF_TARGETS_TOO = frozenset({"kind", "mode", "source", "stage", "version"})
#: Labels that metrics bring themselves: a metric that has not one of them in our tables has it not at all.
EXPOSED_LABELS = (
    frozenset({"le"}).union(*(signal.labels for signal in SIGNALS), *(metric.labels for metric in OWN))
    - _OF_TARGETS_TOO
)
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:\.?post(\d+))?(?:[-+].*)?")


def of_release(version: str = NEWEST) -> Vocabulary:
    """Return what one release of vLLM exposes with every feature in use, and what a sidecar adds.

    Args:
        version: a release that ``release`` can read.
    """
    asked = release(version) or ()
    metrics: dict[str, Metric] = {}
    for signal in SIGNALS:
        spans: list[tuple[str, str, str | None]] = [(signal.name, signal.first, signal.last)]
        spans += [(former.name, former.first, former.last) for former in signal.former]
        for name, first, last in spans:
            if (release(first) or ()) <= asked and (last is None or asked <= (release(last) or ())):
                bounds = BOUNDS.get(signal.key, ()) if asked >= (release(BOUNDS_SINCE) or ()) else ()
                metrics.update(parts_of(_of_signal(signal, name), _spelled(bounds)))
    for metric in OWN:
        metrics.update(_of_own(metric))
    return Vocabulary(metrics, pages=False)


def _of_signal(signal: Signal, name: str) -> Metric:
    values = VALUES.get(signal.key, {})
    return Metric(
        name=name,
        family=signal.name,
        kind=signal.kind,
        unit=signal.unit,
        labels=None if signal.more_labels else frozenset(signal.labels),
        values=values,
        closed=frozenset(values) - OPEN,
    )


def _of_own(metric: OwnMetric) -> dict[str, Metric]:
    values = {label: frozenset(known) for label, known in metric.known.items()}
    values |= {label: known for label, known in _SAYS.items() if label in metric.labels}
    base = Metric(
        name=metric.name,
        family=metric.name,
        kind=metric.kind,
        unit=metric.unit,
        labels=frozenset(metric.labels),
        values=values,
        closed=frozenset(values),
    )
    return parts_of(base, _spelled(metric.buckets))


def _spelled(bounds: Iterable[float]) -> frozenset[str]:
    return frozenset(f"{bound}" for bound in bounds)


def parts_of(base: Metric, bounds: frozenset[str] = frozenset()) -> dict[str, Metric]:
    """Return a family under its bare name and, where it has parts, under the names of these.

    ``bounds`` are the ``le`` of its buckets, where they are known.
    """
    found = {base.name: base}
    if base.kind not in {Kind.HISTOGRAM, Kind.SUMMARY}:
        return found
    for part in ("sum", "count"):
        found[f"{base.name}_{part}"] = replace(base, name=f"{base.name}_{part}", part=part)
    if base.kind is Kind.HISTOGRAM:
        known = {"le": bounds | {"+Inf"}} if bounds else {}
        found[f"{base.name}_bucket"] = replace(
            base,
            name=f"{base.name}_bucket",
            part="bucket",
            labels=base.labels | {"le"} if base.labels is not None else None,
            values={**base.values, **known},
            closed=base.closed | frozenset(known),
        )
    return found


def release(version: str) -> tuple[int, ...] | None:
    """Make a release comparable; ``None`` where it is none."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    numbers = tuple(int(number) for number in found[1].split("."))
    return (*numbers, *(0,) * (3 - len(numbers)), int(found[2] or 0))


def today(name: str) -> tuple[Signal, str] | None:
    """Return the signal that a sample's name means, whatever it was called, and the part of it."""
    for family, part in _families(name):
        if (found := signal_named(canonical_name(family))) is not None:
            return found, part
    return None


def is_ours(name: str) -> bool:
    """Whether a sample's name is one of the sidecar's metrics."""
    return any(family in _OWN for family, _ in _families(name))


def described(name: str) -> Metric | None:
    """Return a metric as our tables have it, under any name that it ever had."""
    for family, _ in _families(name):
        if (base := family_described(family)) is not None:
            return parts_of(base).get(name)
    return None


def family_described(family: str) -> Metric | None:
    """Return a family as our tables have it, by its bare name."""
    known = signal_named(canonical_name(family))
    if known is not None:
        return _of_signal(known, family)
    return _of_own(_OWN[family])[family] if family in _OWN else None


def _families(name: str) -> Iterable[tuple[str, str]]:
    yield name, ""
    yield from ((name.removesuffix(f"_{part}"), part) for part in PARTS if name.endswith(f"_{part}"))
