"""The metrics that pages expose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vllm_observe.alerts.lint.tables import family_described, parts_of
from vllm_observe.alerts.lint.vocabulary import Metric, Vocabulary
from vllm_observe.engine.exposition import Exposition
from vllm_observe.model import Family, Kind

__all__ = ["of_pages"]

#: A unit that a name ends with, for what no table knows.
_UNIT_ENDS = {
    "seconds": "seconds",
    "milliseconds": "milliseconds",
    "bytes": "bytes",
    "ratio": "ratio",
    "perc": "ratio",
}
#: Labels whose values are the user's or appear as they are used: a page holds some of them.
_OPEN_LABELS = frozenset(
    {"model_name", "engine", "profile", "client", "handler", "method", "status", "adapter", "version"}
    | {"python_version", "vllm_version", "limits_source", "service_class", "position", "operation"}
)


def of_pages(pages: Iterable[Exposition]) -> Vocabulary:
    """Return what pages expose, together."""
    metrics: dict[str, Metric] = {}
    for page in pages:
        for family in page.families:
            for name, metric in _of_family(family).items():
                metrics[name] = _both(metrics[name], metric) if name in metrics else metric
    return Vocabulary(metrics, pages=True)


def _of_family(family: Family) -> dict[str, Metric]:
    unit = _UNIT_ENDS.get(_last_word(family.name), "")
    base = family_described(family.name) or Metric(
        name=family.name, family=family.name, kind=family.kind, unit=unit
    )
    if family.kind is not Kind.UNKNOWN:
        base = replace(base, kind=family.kind)
    found = parts_of(base)
    values: dict[str, dict[str, set[str]]] = {}
    for sample in family.samples:
        of_name = values.setdefault(sample.series.name, {})
        for label, value in sample.series.labels:
            of_name.setdefault(label, set()).add(value)
    for name, of_name in values.items():
        seen = frozenset(of_name)
        # Where it has others than we know of, it is another program's, or of a release that we do not know.
        known = {label: ours for label, ours in base.values.items() if of_name.get(label, set()) <= ours}
        found[name] = replace(
            base,
            name=name,
            part=name.removeprefix(f"{family.name}_") if name != family.name else "",
            labels=seen - {"pid"},
            values={label: known.get(label, frozenset()) | of_name[label] for label in seen},
            closed=(seen - _OPEN_LABELS) | (base.closed & seen & frozenset(known)),
        )
    return found


def _last_word(name: str) -> str:
    return name.removesuffix("_total").rpartition("_")[2]


def _both(one: Metric, other: Metric) -> Metric:
    return replace(
        one,
        labels=one.labels | other.labels if one.labels is not None and other.labels is not None else None,
        values={
            label: one.values.get(label, frozenset()) | other.values.get(label, frozenset())
            for label in {*one.values, *other.values}
        },
        closed=frozenset(
            label
            for label in one.closed | other.closed
            if all(label in metric.closed or not metric.values.get(label) for metric in (one, other))
        ),
    )
