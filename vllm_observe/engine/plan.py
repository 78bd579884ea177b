"""Plan an upgrade: which family and which series of a page become which under today's names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from vllm_observe.engine.arrange import Point, arrange, claims
from vllm_observe.errors import Drop, ScrapeError, ScrapeFailure
from vllm_observe.model import Family, Kind, Sample, Series
from vllm_observe.signals import canonical_name, resolve, signal

__all__ = ["Plan", "Step", "make_plan"]

_VLLM = "vllm:"
_LORA = "vllm:lora_requests_info"
_OURS = "vllm_observe_"
#: What is about the interpreter that vLLM runs in, not about vLLM.
_INTERPRETER = re.compile("python_gc_.*|python_info")

_ILLEGAL_IN_NAME = re.compile("[^a-zA-Z0-9_:]|^(?=[0-9])")
_ILLEGAL_IN_LABEL = re.compile("[^a-zA-Z0-9_]|^(?=[0-9])")
#: So many kinds of names, each of such a length, fit into a message.
_SEEN, _SEEN_CHARACTERS = 5, 24


class Step(NamedTuple):
    """One upgraded family, made of the points; ``source`` is the family whose HELP it keeps.

    ``points`` is ``None`` where that family stays as it is.
    """

    source: int
    name: str
    kind: Kind
    points: Sequence[Point] | None


class Plan(NamedTuple):
    """What to do with every page that has these families and series.

    ``lora`` are the places of the samples that tell of LoRA adapters. Places count through all
    samples of a page.
    """

    outline: Sequence[tuple[str, Kind, int]]
    series: Sequence[Series]
    steps: Sequence[Step]
    lora: Sequence[int]
    found: Mapping[str, str]
    dropped: Mapping[Drop, int]

    def fits(self, families: Iterable[Family], samples: Iterable[Sample]) -> bool:
        """Say whether a page has the families and series that the plan is made for."""
        return self.series == [sample.series for sample in samples] and self.outline == _outline(families)


class _Meaning(NamedTuple):
    """What a sample name of a family is today; ``exposed`` is its family's name on the page."""

    exposed: str
    family: str
    kind: Kind
    name: str


class _Source(NamedTuple):
    """A family of the page that serves an upgraded one, and its samples: place, today's name, series."""

    family_index: int
    exposed: str
    kind: Kind
    samples: list[tuple[int, str, Series]]


def make_plan(families: Sequence[Family]) -> Plan:
    """Plan the upgrade of these families.

    Raises:
        ScrapeError: NO_VLLM_METRICS where none is vLLM's; the message names what there is.
    """
    dropped: Counter[Drop] = Counter()
    targets = _gather(families, dropped)
    if not any(name.startswith(_VLLM) for name in targets):
        raise ScrapeError(ScrapeFailure.NO_VLLM_METRICS, _not_vllm(families))
    found: dict[str, str] = {}
    steps: list[Step] = []
    lora: list[int] = []
    taken: set[str] = set()
    for name, unranked in targets.items():
        sources = _ranked(name, unranked)
        best, known = sources[0], signal(name)
        points = arrange(name, best.kind, _points(name, sources, dropped), dropped)
        names = claims(name, best.kind)
        if not points or taken & names:
            dropped[Drop.NAME_CLASH] += len(points)
            continue
        if known:
            found[known.key] = best.exposed
        if name == _LORA:
            # Its labels list the adapters, a new series for each change: it is read, not passed on.
            lora = [place for point in points for place in point.sources]
        else:
            taken |= names
            steps.append(_step(name, best, points, families[best.family_index]))
    series = [sample.series for family in families for sample in family.samples]
    return Plan(_outline(families), series, steps, lora, found, +dropped)


def _outline(families: Iterable[Family]) -> list[tuple[str, Kind, int]]:
    return [(family.name, family.kind, len(family.samples)) for family in families]


def _gather(families: Iterable[Family], dropped: Counter[Drop]) -> dict[str, list[_Source]]:
    """Bring together, for each upgraded family, the families of the page that serve it."""
    targets: dict[str, dict[str, _Source]] = {}
    end = 0
    for index, family in enumerate(families):
        start, end = end, end + len(family.samples)
        if _INTERPRETER.fullmatch(family.name):
            continue
        meanings: dict[str, _Meaning] = {}
        for place, sample in enumerate(family.samples, start):
            written = sample.series.name
            meaning = meanings.get(written) or meanings.setdefault(written, _meaning(family, written))
            if meaning.family.replace(":", "_").startswith(_OURS):
                dropped[Drop.RESERVED_NAME] += 1
                continue
            source = targets.setdefault(meaning.family, {}).setdefault(
                meaning.exposed, _Source(index, meaning.exposed, meaning.kind, [])
            )
            source.samples.append((place, meaning.name, sample.series))
    return {name: list(sources.values()) for name, sources in targets.items()}


def _meaning(family: Family, sample: str) -> _Meaning:
    exposed, kind = family.name, family.kind
    if kind is Kind.GAUGEHISTOGRAM:
        # Prometheus 2 has no such type: each of its sample names is a family that promises nothing.
        return _Meaning(exposed, _legal(sample), Kind.UNKNOWN, _legal(sample))
    today = canonical_name(exposed)
    known = signal(today)
    if kind in {Kind.INFO, Kind.STATESET}:
        kind = Kind.GAUGE
    elif kind is Kind.UNKNOWN and known and known.kind in {Kind.COUNTER, Kind.GAUGE}:
        kind = known.kind
    elif kind is Kind.UNKNOWN and not known:
        part = _part_of_untyped(exposed)
        if part:
            return part
    if kind is Kind.COUNTER and not today.endswith("_total"):
        # OpenMetrics has no such counter, and a name must be the same in both formats.
        kind = Kind.UNKNOWN
    return _Meaning(exposed, _legal(today), kind, _legal(today + sample.removeprefix(exposed)))


def _part_of_untyped(exposed: str) -> _Meaning | None:
    """Find the distribution that a family without a type is one sample name of."""
    for suffix in ("_bucket", "_count", "_sum"):
        stem = exposed.removesuffix(suffix)
        known = signal(canonical_name(stem)) if stem != exposed else None
        if known and known.kind in {Kind.HISTOGRAM, Kind.SUMMARY}:
            return _Meaning(stem, known.name, known.kind, known.name + suffix)
    return None


def _legal(name: str) -> str:
    return _ILLEGAL_IN_NAME.sub("_", name)


def _ranked(name: str, sources: list[_Source]) -> list[_Source]:
    """Put first the source that is believed."""
    known = signal(name)
    best = resolve([source.exposed for source in sources]).get(known.key) if known else name
    return sorted(sources, key=lambda source: source.exposed != best)


def _points(name: str, sources: Sequence[_Source], dropped: Counter[Drop]) -> list[Point]:
    """Upgrade the series of a family's sources.

    Two sources are two names for the same numbers, so each engine is read under one name only, and a
    model whose engines a better source names has none without a name. In one source the series that
    differ in their process alone are one point.
    """
    processes: dict[Series, dict[str | None, int]] = {}
    served: set[tuple[str | None, str | None]] = set()
    for source in sources:
        if source.kind is not sources[0].kind:
            dropped[Drop.NAME_CLASH] += len(source.samples)
            continue
        engines, models = set(), {model for model, _ in served}
        for place, today, exposed in source.samples:
            series, process = _series(exposed, today, name)
            if series is None:
                dropped[Drop.NAME_CLASH] += 1
                continue
            model, engine = series.label("model_name"), series.label("engine")
            if (model, engine) in served or (exposed.label("engine") is None and model in models):
                continue
            engines.add((model, engine))
            places = processes.get(series, {})
            if places and (process in places or None in {process, *places}):
                dropped[Drop.DUPLICATE] += 1
                continue
            processes.setdefault(series, places)[process] = place
        served |= engines
    return [Point(series, tuple(places.values())) for series, places in processes.items()]


def _series(exposed: Series, name: str, family: str) -> tuple[Series | None, str | None]:
    """Upgrade a series: itself where nothing changes, ``None`` where two labels become one; its process."""
    known = signal(family)
    process = None
    labels: dict[str, str] = {}
    for key, value in exposed.labels:
        if key == "pid" and family.startswith(_VLLM):
            process = value
            continue
        legal = _ILLEGAL_IN_LABEL.sub("_", key)
        if legal in labels or legal == "__name__":
            return None, None
        labels[legal] = value
    if known and "engine" in known.labels and "engine" not in labels:
        labels = dict(sorted({**labels, "engine": "0"}.items()))
    upgraded = tuple(labels.items())
    if name == exposed.name and upgraded == exposed.labels:
        return exposed, process
    return Series(name, upgraded), process


def _step(name: str, best: _Source, points: list[Point], family: Family) -> Step:
    first = best.samples[0][0]
    same = (family.name, family.kind, len(family.samples)) == (name, best.kind, len(points)) and all(
        point.series is sample.series and point.sources == (place,)
        for place, (point, sample) in enumerate(zip(points, family.samples, strict=True), first)
    )
    return Step(best.family_index, name, best.kind, None if same else points)


def _not_vllm(families: Iterable[Family]) -> str:
    """Say what there is in place of a vLLM's families."""
    kinds = {_kind_of_name(_legal(family.name)) for family in families if family.samples}
    if not kinds:
        return "the page holds no samples: is this the /metrics page of a vLLM?"
    seen = ", ".join(f"{kind[:_SEEN_CHARACTERS]}_*" for kind in sorted(kinds)[:_SEEN])
    if "http" in kinds:
        return f"the page holds {seen} and no vllm:*: is this a vLLM, and not one with --disable-log-stats?"
    return f"the page holds {seen} and no vllm:*: is this a vLLM, and not some other service?"


def _kind_of_name(name: str) -> str:
    return _OURS.rstrip("_") if name.startswith(_OURS) else re.split("[_:]", name, maxsplit=1)[0]
