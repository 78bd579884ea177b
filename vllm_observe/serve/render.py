"""Write families as a page, in text 0.0.4 or OpenMetrics 1.0, and choose between the two.

Samples have the same names in both and for every client: only the descriptions differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from vllm_observe.model import Exemplar, Family, Kind

__all__ = ["Format", "negotiate", "render"]


class Format(Enum):
    """A format of the page; the value is its Content-Type."""

    TEXT_0_0_4 = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS_1_0 = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    @property
    def content_type(self) -> str:
        """The Content-Type header of a page in this format."""
        return self.value


#: How a client asks for each format, and the versions of it that our page is good for.
_MEDIA: Mapping[Format, tuple[str, tuple[str, ...]]] = {
    Format.TEXT_0_0_4: ("text/plain", ("", "0.0.4")),
    Format.OPENMETRICS_1_0: ("application/openmetrics-text", ("", "1.0.0", "0.0.1")),
}
#: Exacter than ``text/*``, which is exacter than ``*/*``.
_BY_NAME = 2

#: What text 0.0.4 calls the types that OpenMetrics added.
_TEXT_TYPES: Mapping[Kind, str] = {
    Kind.UNKNOWN: "untyped",
    Kind.INFO: "gauge",
    Kind.STATESET: "gauge",
    Kind.GAUGEHISTOGRAM: "untyped",
}
#: What OpenMetrics takes off a sample's name to have its family's.
_OPENMETRICS_SUFFIX: Mapping[Kind, str] = {Kind.COUNTER: "_total", Kind.INFO: "_info"}
#: The samples that can have an exemplar.
_WITH_EXEMPLAR: Mapping[Kind, str] = {
    Kind.COUNTER: "_total",
    Kind.HISTOGRAM: "_bucket",
    Kind.GAUGEHISTOGRAM: "_bucket",
}
#: The numbers that Python spells in its own way.
_SPELLED = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
_LABEL_NAME = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")
#: Characters in the names and values of an exemplar's labels together.
_MAX_EXEMPLAR = 128


def render(families: Iterable[Family], fmt: Format) -> bytes:
    """Write a page.

    The families must be valid together (what :class:`~vllm_observe.engine.upgrade.Upgrader` gives
    is, beside families whose names begin with ``vllm_observe_``). An exemplar that no client would
    take is left out.
    """
    openmetrics = fmt is Format.OPENMETRICS_1_0
    lines: list[str] = []
    for family in families:
        lines += _description(family.name, family.kind, family.help, family.unit, fmt)
        suffix = _WITH_EXEMPLAR.get(family.kind) if openmetrics else None
        for series, value, exemplar in family.samples:
            number = repr(value + 0.0)  # this is _number(), without a call for each sample
            line = f"{series.text} {_SPELLED.get(number, number)}"
            if exemplar and suffix and series.name.endswith(suffix) and _is_valid(exemplar):
                line += _exemplar(exemplar)
            lines.append(line)
    if openmetrics:
        lines.append("# EOF")
    lines.append("")
    # A lone surrogate, as JSON can hold one, has no UTF-8: it must not cost the page.
    return "\n".join(lines).encode("utf-8", "replace")


def negotiate(accept: str | None) -> Format:
    """Choose the format that a client likes best.

    Of two that it likes the same, OpenMetrics is chosen only where it is named: whoever takes just
    anything can read the classic text for sure. So it gets that too if it accepts neither, since a
    page is of more use to it than an error.
    """
    ranges = list(_ranges(accept or "*/*"))
    openmetrics, text = (_liking(fmt, ranges) for fmt in (Format.OPENMETRICS_1_0, Format.TEXT_0_0_4))
    better = openmetrics > text or (openmetrics == text and openmetrics.named == _BY_NAME)
    return Format.OPENMETRICS_1_0 if better and openmetrics.quality else Format.TEXT_0_0_4


class _Range(NamedTuple):
    """A media range of an Accept header."""

    media: str
    version: str
    quality: float


class _Liking(NamedTuple):
    """How much a client likes a format, and how exactly it says so."""

    quality: float
    named: int


def _ranges(accept: str) -> Iterator[_Range]:
    for item in accept.lower().split(","):
        media, *parameters = (part.strip() for part in item.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        try:
            quality = float(values.get("q", "1"))
        except ValueError:
            continue
        if 0 <= quality <= 1:
            yield _Range(media, values.get("version", "").strip('"'), quality)


def _liking(fmt: Format, ranges: Sequence[_Range]) -> _Liking:
    """Return how a client likes a format: its most exact word on it counts."""
    media, versions = _MEDIA[fmt]
    for named, wanted in ((_BY_NAME, media), (1, media.partition("/")[0] + "/*"), (0, "*/*")):
        qualities = [it.quality for it in ranges if it.media == wanted and it.version in versions]
        if qualities:
            return _Liking(max(qualities), named)
    return _Liking(0.0, 0)


@lru_cache(maxsize=1024)  # it is the same scrape by scrape, and a third of the work
def _description(name: str, kind: Kind, help_: str, unit: str, fmt: Format) -> tuple[str, ...]:
    """Return the comments that go before a family's samples."""
    openmetrics = fmt is Format.OPENMETRICS_1_0
    type_ = kind.value if openmetrics else _TEXT_TYPES.get(kind, kind.value)
    suffix = _OPENMETRICS_SUFFIX.get(kind, "")
    if openmetrics and not name.endswith(suffix):
        type_ = Kind.UNKNOWN.value
    elif openmetrics:
        name = name.removesuffix(suffix)
    lines = [f"# TYPE {name} {type_}"]
    if help_:
        lines.insert(0, f"# HELP {name} {_escaped(help_, quotes=openmetrics)}")
    if openmetrics and unit and name.endswith(f"_{unit}") and kind not in {Kind.INFO, Kind.STATESET}:
        lines.append(f"# UNIT {name} {unit}")
    return tuple(lines)


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _is_valid(exemplar: Exemplar) -> bool:
    names = [name for name, _ in exemplar.labels]
    return (
        sum(len(name) + len(value) for name, value in exemplar.labels) <= _MAX_EXEMPLAR
        and len(set(names)) == len(names)
        and all(_LABEL_NAME.fullmatch(name) for name in names)
        and not math.isnan(exemplar.value)
        and math.isfinite(exemplar.timestamp or 0.0)
    )


def _exemplar(exemplar: Exemplar) -> str:
    labels = ",".join(f'{name}="{_escaped(value, quotes=True)}"' for name, value in exemplar.labels)
    numbers = [exemplar.value] if exemplar.timestamp is None else [exemplar.value, exemplar.timestamp]
    return " # {" + labels + "} " + " ".join(_number(number) for number in numbers)


def _number(value: float) -> str:
    written = repr(float(value))
    return _SPELLED.get(written, written)
