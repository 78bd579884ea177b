"""Which family each sample of a page belongs to, from what the page says of its families."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from vllm_observe.model import Kind

__all__ = ["Naming", "Place"]

#: What a type's sample names have after the family's name as the metadata gives it. A counter's
#: metadata have ``_total`` in text 0.0.4 and not in OpenMetrics; both are read in both.
_SUFFIXES: Mapping[Kind, tuple[str, ...]] = {
    Kind.COUNTER: ("_total",),
    Kind.INFO: ("_info",),
    Kind.SUMMARY: ("_count", "_sum"),
    Kind.HISTOGRAM: ("_bucket", "_count", "_sum"),
    Kind.GAUGEHISTOGRAM: ("_bucket", "_gcount", "_gsum"),
}
#: The types with a single sample name: their families are named like it.
_SINGLE = {Kind.COUNTER, Kind.INFO}
#: The types whose families have a time of creation beside them.
_CREATED = {Kind.COUNTER, Kind.SUMMARY, Kind.HISTOGRAM}


class Place(NamedTuple):
    """Where a sample belongs: the metadata's name, its family's name, and its own as it is meant."""

    described: str
    family: str
    name: str


class Naming:
    """The places of all sample names of one page.

    Some clients write ``vllm:x`` in the metadata and ``vllm_x`` in the samples (for an old
    Prometheus that knows no colon): the metadata's spelling is what was meant.

    Times of creation have no place. In OpenMetrics they are samples of the family, in text 0.0.4
    gauges beside it. A gauge whose name merely ends so, with no counter beside it, is data.

    Args:
        kinds: the families that the page describes, with their types.
        written: the names of all samples, as written.
    """

    def __init__(self, kinds: Mapping[str, Kind], written: Collection[str]) -> None:
        self._kinds = kinds
        self._written = written
        self._places = {name: self._place(name, name) for name in kinds}
        for described, kind in kinds.items():
            for suffix in _SUFFIXES.get(kind, ()):
                name = described + suffix
                self._places.setdefault(name, self._place(described, name))
        for name, place in list(self._places.items()):
            self._places.setdefault(_without_colons(name), place)
        self._created = self._names_of_creation_times()

    def place(self, written: str) -> Place | None:
        """Return where a sample of this name belongs; ``None`` for a time of creation."""
        if written in self._created:
            return None
        return self._places.get(written) or Place(written, written, written)

    def described(self, name: str) -> Place | None:
        """Return the place of what metadata describe; ``None`` for times of creation."""
        if name in self._created:
            return None
        kind = self._kinds[name]
        bare = name in self._written or _without_colons(name) in self._written
        if bare or kind not in _SINGLE:
            return Place(name, name, name)
        suffix = _SUFFIXES[kind][0]
        return self._place(name, name.removesuffix(suffix) + suffix)

    def _place(self, described: str, name: str) -> Place:
        return Place(described, name if self._kinds[described] in _SINGLE else described, name)

    def _names_of_creation_times(self) -> set[str]:
        stems = {name for name, kind in self._kinds.items() if kind in _CREATED}
        # The names of the samples alone tell of a counter without _total in its metadata, or without any.
        for suffix in ("_total", "_bucket"):
            stems |= {name.removesuffix(suffix) for name in self._written if name.endswith(suffix)}
        created = {f"{stem}_created" for stem in stems}
        return created | {_without_colons(name) for name in created}


def _without_colons(name: str) -> str:
    return name.replace(":", "_")
