"""Which families each release of vLLM exposes, with their labels and buckets, read from pages.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from itertools import count, takewhile
from typing import Any

from vllm_observe.model import Kind
from vllm_observe.signals import canonical_name

__all__ = ["Flavour", "Row", "bounds_ever", "flavours", "page", "place_of", "releases"]


class Flavour(str, Enum):
    """vLLM's two engines: V0 until 0.10.2, V1 from 0.7.3 on."""

    V0 = "v0"
    V1 = "v1"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A family as a span of releases exposes it."""

    family: str
    kind: Kind
    engine: str  # v0, v1 or any
    labels: tuple[str, ...]
    first: int  # by place in the list of releases, both ends included
    last: int
    buckets: tuple[float, ...] | str = ()  # or the rule by which they are computed
    needs_lora: bool = False  # it is there with LoRA alone
    pid: tuple[int, int] | None = None  # between which of several API processes each has a child

    def tells_process(self, place: int) -> bool:
        """Say whether, with several API processes, a release shows a child for each."""
        return self.engine == "v1" and self.pid is not None and self.pid[0] <= place <= self.pid[1]

    def bounds(self, max_model_len: int) -> tuple[float, ...]:
        """Return the upper bounds of the buckets, without the last."""
        return _RULES[self.buckets](max_model_len) if isinstance(self.buckets, str) else self.buckets


def _one_two_five(max_model_len: int) -> tuple[float, ...]:
    numbers = (float(digit * 10**power) for power in count() for digit in (1, 2, 5))
    return tuple(takewhile(lambda number: number <= max_model_len, numbers))


def _capture_sizes(_: int) -> tuple[float, ...]:
    return (1.0, 2.0, 4.0, *(float(size) for size in range(8, 257, 8)))


_RULES = {"1-2-5": _one_two_five, "capture sizes": _capture_sizes}


@cache
def _data() -> Mapping[str, Any]:
    text = files("vllm_observe.sim").joinpath("pages.json").read_text(encoding="utf-8")
    data: Mapping[str, Any] = json.loads(text)
    return data


@cache
def _rows() -> tuple[Row, ...]:
    data = _data()
    places = {release: place for place, release in enumerate(data["releases"])}
    pids = {family: (places[first], places[last]) for family, (first, last) in data["pid"].items()}
    named = {name: tuple(map(float, bounds)) for name, bounds in data["buckets"].items()}
    return tuple(
        Row(
            family=row["family"],
            kind=Kind(row["type"]),
            engine=row["engine"],
            labels=tuple(row["labels"]),
            first=places[row["first"]],
            last=places[row["last"]],
            buckets=named.get(row.get("buckets", ""), row.get("buckets", ())),
            needs_lora=row.get("needs") == "lora",
            pid=pids.get(row["family"]),
        )
        for row in data["rows"]
    )


def releases() -> tuple[str, ...]:
    """Return every known release, the oldest first."""
    return tuple(_data()["releases"])


def flavours(release: str) -> list[Flavour]:
    """Return the engines that a release has."""
    place = place_of(release)
    return [
        flavour
        for flavour in Flavour
        if any(row.engine == flavour.value and row.first <= place <= row.last for row in _rows())
    ]


def page(release: str, flavour: Flavour, *, lora: bool = False) -> list[Row]:
    """Return what a release exposes without any option, or with LoRA alone, in its order.

    Raises:
        ValueError: the release is not known, or does not have that engine.
    """
    place = place_of(release)
    if flavour not in flavours(release):
        raise ValueError(f"vLLM {release} has no engine {flavour.value}")
    return [
        row
        for row in _rows()
        if row.engine in {flavour.value, "any"}
        and row.first <= place <= row.last
        and (lora or not row.needs_lora)
    ]


def place_of(release: str) -> int:
    """Return a release's place in the list of all.

    Raises:
        ValueError: the release is not known.
    """
    if release not in releases():
        raise ValueError(f"no known release of vLLM: {release}; there are {', '.join(releases())}")
    return releases().index(release)


@cache
def bounds_ever(name: str, max_model_len: int) -> tuple[float, ...]:
    """Return every bound that any release has in a family of today's name.

    What is counted between these can be shown in any release's buckets.
    """
    found = {
        bound for row in _rows() if canonical_name(row.family) == name for bound in row.bounds(max_model_len)
    }
    return tuple(sorted(found))
