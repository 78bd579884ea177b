"""A board's JSON as values: what is drawn where, in which unit and colours, and what is asked for it.

Boards of others come in here too, so whatever is missing or of another type than Grafana would write
is left at what Grafana takes it for.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from vllm_observe.dashboards import Options, render
from vllm_observe.errors import ConfigError
from vllm_observe.preview.looks import Step, colour

__all__ = ["GRID", "Board", "Field", "Panel", "Place", "Target", "load", "read"]

#: The grid's width in cells.
GRID = 24

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a panel stands, in cells from the board's top left corner."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True)
class Target:
    """A query. ``instant`` asks for the last moment alone; ``table`` wants a row for each series."""

    ref: str
    expr: str
    legend: str
    instant: bool
    table: bool


@dataclass(frozen=True)
class Field:
    """How a series or a column is shown: its unit, its thresholds, and words in place of numbers."""

    unit: str
    steps: Sequence[Step]
    words: Mapping[str, tuple[str, str]]  # the text and the colour of a value
    fixed: str | None = None  # a colour of its own
    coloured: bool = False  # whether a table's cells have the thresholds' colours


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
        kind: Grafana's name of its type.
        field: how its values are shown, unless ``overrides`` say otherwise by their names.
        custom: what else its field configuration says.
        options: what is particular to its kind.
        transformations: of tables, by their ids.
    """

    kind: str
    title: str
    description: str
    place: Place
    targets: Sequence[Target]
    field: Field
    overrides: Mapping[str, Field]
    defaults: Json
    custom: Json
    options: Json
    transformations: Mapping[str, Json]

    def field_of(self, name: str) -> Field:
        """Return how the values of one name are shown."""
        return self.overrides.get(name, self.field)


@dataclass(frozen=True)
class Board:
    """A board: its panels from top to bottom, and what can be picked."""

    title: str
    variables: Sequence[Json]
    panels: Sequence[Panel]

    @property
    def height(self) -> int:
        """Its height in cells."""
        return max((panel.place.y + panel.place.height for panel in self.panels), default=1)


def load(name: str) -> Board:
    """Return one of our boards by its name, or any by its file's path.

    Raises:
        ConfigError: there is no such board, or the file holds none.
    """
    ours = render(Options())
    if name in ours:
        return read(ours[name])
    path = Path(name)
    if not path.exists():
        near = difflib.get_close_matches(name, ours, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(ours)}"
        raise ConfigError(f"no board and no file {name!r}: {meant}")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read as JSON: {error}") from None
    if isinstance(told, dict) and isinstance(told.get("dashboard"), dict):
        told = told["dashboard"]  # as Grafana's API wraps it
    if not isinstance(told, dict) or not isinstance(told.get("panels"), list):
        raise ConfigError(f"{name} is no Grafana board: it has no panels")
    return read(told)


def read(told: Json) -> Board:
    """Read a board's JSON."""
    variables = _list(_dict(told, "templating"), "list")
    return Board(_text(told, "title"), variables, [_panel(panel) for panel in _list(told, "panels")])


def _panel(told: Json) -> Panel:
    config = _dict(told, "fieldConfig")
    defaults = _dict(config, "defaults")
    field = _field(defaults)
    kind = _text(told, "type")
    options = dict(_dict(told, "options"))
    if kind == "row":
        options = {"collapsed": bool(told.get("collapsed")), "held": len(_list(told, "panels"))}
    return Panel(
        kind=kind,
        title=_text(told, "title"),
        description=_text(told, "description"),
        place=_place(_dict(told, "gridPos")),
        targets=[_target(target) for target in _list(told, "targets") if not target.get("hide")],
        field=field,
        overrides=dict(_overrides(_list(config, "overrides"), defaults)),
        defaults=defaults,
        custom=_dict(defaults, "custom"),
        options=options,
        transformations={_text(one, "id"): _dict(one, "options") for one in _list(told, "transformations")},
    )


def _place(told: Json) -> Place:
    x, y = (max(0, _whole(told, key, 0)) for key in ("x", "y"))
    width = min(max(1, _whole(told, "w", 12)), GRID)
    return Place(min(x, GRID - width), y, width, max(1, _whole(told, "h", 8)))


def _target(told: Json) -> Target:
    return Target(
        ref=_text(told, "refId"),
        expr=_text(told, "expr"),
        legend=_text(told, "legendFormat"),
        instant=bool(told.get("instant")) and not told.get("range"),
        table=_text(told, "format") == "table",
    )


def _field(defaults: Json) -> Field:
    told = _dict(defaults, "color")
    cells = _dict(_dict(defaults, "custom"), "cellOptions")
    return Field(
        unit=_text(defaults, "unit"),
        steps=[
            Step(-inf if step.get("value") is None else float(step["value"]), colour(step.get("color")))
            for step in _list(_dict(defaults, "thresholds"), "steps")
            if isinstance(step.get("value"), int | float | None)
        ],
        words=dict(_words(_list(defaults, "mappings"))),
        fixed=colour(told["fixedColor"]) if told.get("mode") == "fixed" and "fixedColor" in told else None,
        coloured=_text(cells, "type").startswith("color"),
    )


def _overrides(told: Sequence[Json], defaults: Json) -> Iterator[tuple[str, Field]]:
    for override in told:
        matcher = _dict(override, "matcher")
        if matcher.get("id") == "byName" and isinstance(matcher.get("options"), str):
            changed = {_text(one, "id"): one.get("value") for one in _list(override, "properties")}
            cells = {"cellOptions": changed.pop("custom.cellOptions", {})}
            yield matcher["options"], _field({**defaults, **changed, "custom": cells})


def _words(mappings: Sequence[Json]) -> Iterator[tuple[str, tuple[str, str]]]:
    for mapping in mappings:
        if mapping.get("type") == "value":
            for value, shown in _dict(mapping, "options").items():
                if isinstance(shown, dict):
                    yield value, (_text(shown, "text") or value, colour(shown.get("color")))


def _dict(told: Json, key: str) -> Json:
    found = told.get(key)
    return found if isinstance(found, dict) else {}


def _list(told: Json, key: str) -> list[Json]:
    found = told.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _text(told: Json, key: str) -> str:
    found = told.get(key)
    return found if isinstance(found, str) else ""


def _whole(told: Json, key: str, default: int) -> int:
    found = told.get(key)
    return int(found) if isinstance(found, int | float) else default
