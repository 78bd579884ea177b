"""Values as Grafana writes them: ``1.23 K``, ``250 ms``, ``97.5%``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType

__all__ = ["formatter"]

#: Writes a value; with so many decimals, or as many as its size deserves.
Formatter = Callable[[float, "int | None"], str]

_SHORT = ("", " K", " Mil", " Bil", " Tri", " Quadr", " Quint", " Sext", " Sept")
_COUNT = ("", "K", "M", "B", "T")
_SI = ("f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E", "Z", "Y")
_SI_ONE = _SI.index("")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
#: Below how many seconds a duration is written so: its factor and its unit.
_DURATIONS = (
    (1e-6, 1e9, "ns"),
    (1e-3, 1e6, "µs"),
    (1.0, 1e3, "ms"),
    (60.0, 1.0, "s"),
    (3_600.0, 1 / 60, "min"),
    (86_400.0, 1 / 3_600, "hour"),
    (604_800.0, 1 / 86_400, "day"),
    (31_536_000.0, 1 / 604_800, "week"),
    (math.inf, 1 / 31_556_900, "year"),
)
#: Grafana gives a number one decimal more if what is left of it, so shifted, is above this.
_HALF = 2.25


def _decimals(value: float) -> int:
    if value == 0 or value % 1 == 0:
        return 0
    places = 1 - math.floor(math.log10(abs(value)))
    return max(0, places + (value * 10.0**places > _HALF))


def _fixed(value: float, decimals: int | None) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    places = _decimals(value) if decimals is None else decimals
    factor = 10**places
    rounded = math.floor(value * factor + 0.5) / factor  # halves go up, as in JavaScript
    return f"{rounded:.{places}f}"


def _scaled(value: float, decimals: int | None, *, factor: float, names: Sequence[str], one: int = 0) -> str:
    if value == 0 or not math.isfinite(value):
        return _fixed(value, decimals) + (names[one] if math.isfinite(value) else "")
    power = math.floor(math.log10(abs(value)) / math.log10(factor))
    power = min(max(power, -one), len(names) - one - 1)
    return _fixed(value / factor**power, decimals) + names[one + power]


def _duration(value: float, decimals: int | None, *, seconds: float = 1.0) -> str:
    size = value * seconds
    if size == 0:
        return f"{_fixed(0.0, decimals)} {'s' if seconds == 1 else 'ms'}"
    factor, unit = next(
        (times, name) for below, times, name in _DURATIONS if abs(size) < below or below == math.inf
    )
    return f"{_fixed(size * factor, decimals)} {unit}"


def _share(value: float, decimals: int | None, *, times: float) -> str:
    return f"{_fixed(value * times, decimals)}%"


def _suffixed(value: float, decimals: int | None, *, suffix: str) -> str:
    return f"{_fixed(value, decimals)} {suffix}" if suffix else _fixed(value, decimals)


def _prefixed(value: float, decimals: int | None, *, prefix: str) -> str:
    return f"{prefix}{_fixed(value, decimals)}"


def _moment(value: float, _decimals: int | None) -> str:
    try:
        return f"{datetime.fromtimestamp(value / 1000).astimezone():%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return _fixed(value, None)


def _count(unit: str) -> Formatter:
    return partial(_scaled, factor=1000, names=[f"{name} {unit}" for name in _COUNT])


def _si(unit: str) -> Formatter:
    return partial(_scaled, factor=1000, names=[f" {name}{unit}" for name in _SI], one=_SI_ONE)


def _size(factor: float, names: Sequence[str], unit: str) -> Formatter:
    return partial(_scaled, factor=factor, names=[f" {name}{unit}" for name in names])


_FORMATTERS: Mapping[str, Formatter] = MappingProxyType(
    {
        "none": partial(_suffixed, suffix=""),
        "short": partial(_scaled, factor=1000, names=_SHORT),
        "percent": partial(_share, times=1),
        "percentunit": partial(_share, times=100),
        "s": _duration,
        "ms": partial(_duration, seconds=0.001),
        "bytes": _size(1024, _BINARY, "B"),
        "decbytes": _size(1000, _DECIMAL, "B"),
        "Bps": _size(1000, _DECIMAL, "B/s"),
        "binBps": _size(1024, _BINARY, "B/s"),
        "cps": _count("c/s"),
        "ops": _count("ops/s"),
        "reqps": _count("req/s"),
        "watt": _si("W"),
        "celsius": partial(_suffixed, suffix="°C"),
        "dateTimeAsIso": _moment,
    }
)
#: Units that a board makes up: ``suffix:cores``, ``si:tok/s``.
_MADE: Mapping[str, Callable[[str], Formatter]] = MappingProxyType(
    {
        "prefix": lambda unit: partial(_prefixed, prefix=unit),
        "suffix": lambda unit: partial(_suffixed, suffix=unit),
        "si": _si,
        "count": _count,
    }
)


def formatter(unit: str) -> Formatter:
    """Return what writes values of one of Grafana's units; one that is unknown stands behind the number."""
    if unit in _FORMATTERS:
        return _FORMATTERS[unit]
    kind, made, name = unit.partition(":")
    if made and kind in _MADE:
        return _MADE[kind](name)
    return partial(_suffixed, suffix=unit)
