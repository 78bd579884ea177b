"""Colours as Grafana names and hands them out, and those of the page itself."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["BACKGROUND", "EDGE", "FAINT", "GRID", "PANEL", "TEXT", "Step", "colour", "in_turn", "reached"]

BACKGROUND, PANEL, EDGE, GRID = "#f4f5f5", "#ffffff", "#dcdee1", "#e9eaec"
TEXT, FAINT = "#24292e", "#6e757c"

#: The hues that Grafana names, in its shades from light to dark.
_HUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "red": ("#ffa6b0", "#ff7383", "#f2495c", "#e02f44", "#c4162a"),
        "orange": ("#ffcb7d", "#ffb357", "#ff9830", "#ff780a", "#fa6400"),
        "yellow": ("#fff899", "#ffee52", "#fade2a", "#f2cc0c", "#e0b400"),
        "green": ("#c8f2c2", "#96d98d", "#73bf69", "#56a64b", "#37872d"),
        "blue": ("#c0d8ff", "#8ab8ff", "#5794f2", "#3274d9", "#1f60c4"),
        "purple": ("#deb6f2", "#ca95e5", "#b877d9", "#a352cc", "#8f3bb8"),
    }
)
_SHADES = ("super-light-", "light-", "", "semi-dark-", "dark-")
_NAMED = {
    **{shade + hue: tones[place] for hue, tones in _HUES.items() for place, shade in enumerate(_SHADES)},
    "gray": "#808080",
    "grey": "#808080",
    "text": TEXT,
    "transparent": PANEL,
    "white": "#ffffff",
    "black": "#000000",
}
_HEX = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")

#: Series without a colour of their own get these in turn: all hues in one shade, then in the next.
_TURN = tuple(
    f"{shade}{hue}"
    for shade in ("", "semi-dark-", "light-", "dark-", "super-light-")
    for hue in ("green", "yellow", "blue", "orange", "red", "purple")
)


def colour(name: object) -> str:
    """Return one of Grafana's colours as matplotlib reads it; what is none is grey."""
    if not isinstance(name, str):
        return _NAMED["grey"]
    return _NAMED.get(name) or (name if _HEX.fullmatch(name) else _NAMED["grey"])


def in_turn(place: int) -> str:
    """Return the colour of a panel's series by its place."""
    return colour(_TURN[place % len(_TURN)])


@dataclass(frozen=True)
class Step:
    """A threshold: the colour from a value on."""

    at: float
    colour: str


def reached(value: float, steps: Iterable[Step]) -> str:
    """Return the colour of the highest threshold that a value has reached."""
    if math.isnan(value):
        return FAINT
    return max(
        (step for step in steps if value >= step.at), key=lambda step: step.at, default=Step(0, TEXT)
    ).colour
