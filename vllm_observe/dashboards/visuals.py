"""How each kind of panel looks: Grafana's ``type``, ``fieldConfig`` and ``options``, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from vllm_observe.dashboards.panels import (
    Bands,
    BarGauge,
    Colour,
    Column,
    Heatmap,
    Link,
    Panel,
    Stat,
    State,
    StateTimeline,
    Table,
    TimeSeries,
)

__all__ = ["shape"]

Json = dict[str, Any]

_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_ALL_SERIES = {"maxHeight": 600, "mode": "multi", "sort": "desc"}
#: Sorted by the last value: with two hundred series the ones that matter come first.
_LEGEND = {
    "calcs": ["lastNotNull", "mean", "max"],
    "displayMode": "table",
    "placement": "bottom",
    "showLegend": True,
    "sortBy": "Last *",
    "sortDesc": True,
}


@singledispatch
def shape(panel: Panel, _refs: Sequence[str]) -> Json:
    """Return what makes a panel one of its kind.

    Args:
        panel: what is to be drawn.
        refs: the refIds of the queries that are asked.
    """
    raise TypeError(f"{type(panel).__name__} has no shape")


@shape.register
def _time_series(panel: TimeSeries, _refs: Sequence[str]) -> Json:
    filled = panel.bars or panel.stacked
    custom: Json = {
        "axisSoftMin": panel.low_value,
        "drawStyle": "bars" if panel.bars else "line",
        # What is stacked has no line: that of a series at 0 would edge the whole stack in its colour.
        "fillOpacity": 60 if filled else 0,
        "lineWidth": 0 if filled else 1,
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
        "thresholdsStyle": {"mode": "dashed" if panel.bands.line else "off"},
    }
    if panel.top_value is not None:
        custom["axisSoftMax"] = panel.top_value
    defaults = _defaults(panel) | {"color": {"mode": "palette-classic"}, "custom": custom}
    defaults.pop("max", None)  # a soft end of the scale hides nothing that is above it
    return {
        "type": "timeseries",
        "fieldConfig": {"defaults": defaults, "overrides": _coloured(panel.colours)},
        "options": {"legend": _LEGEND, "tooltip": _ALL_SERIES},
    }


@shape.register
def _stat(panel: Stat, _refs: Sequence[str]) -> Json:
    return {
        "type": "stat",
        "fieldConfig": {
            "defaults": _defaults(panel) | ({"noValue": panel.nothing} if panel.nothing else {}),
            "overrides": _coloured(panel.colours),
        },
        "options": {
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": _LAST,
            # A number alone says nothing where there are names: "auto" leaves them out of a single one.
            "textMode": "value_and_name" if any(query.legend for query in panel.asked) else "auto",
            "wideLayout": True,
        },
    }


@shape.register
def _bar_gauge(panel: BarGauge, _refs: Sequence[str]) -> Json:
    return {
        "type": "bargauge",
        "fieldConfig": {"defaults": _defaults(panel) | {"min": 0}, "overrides": _coloured(panel.colours)},
        "options": {
            "displayMode": "basic",
            "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": False},
            "maxVizHeight": 40,
            "minVizHeight": 12,
            "minVizWidth": 8,
            "namePlacement": "auto",
            "orientation": "horizontal",
            "reduceOptions": _LAST,
            "showUnfilled": True,
            "sizing": "auto",
            "valueMode": "color",
        },
    }


@shape.register
def _heatmap(panel: Heatmap, _refs: Sequence[str]) -> Json:
    return {
        "type": "heatmap",
        "fieldConfig": {"defaults": {"custom": {"scaleDistribution": {"type": "linear"}}}, "overrides": []},
        "options": {
            "calculate": False,
            "cellGap": 1,
            "color": {
                "exponent": 0.5,
                "fill": "dark-orange",
                "mode": "scheme",
                "reverse": False,
                "scale": "exponential",
                "scheme": "Oranges",
                "steps": 64,
            },
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "showColorScale": True, "yHistogram": True},
            "yAxis": {"axisPlacement": "left", "reverse": False, "unit": panel.unit.value},
        },
    }


@shape.register
def _state_timeline(panel: StateTimeline, _refs: Sequence[str]) -> Json:
    return {
        "type": "state-timeline",
        "fieldConfig": {
            "defaults": _defaults(panel)
            | {"custom": {"fillOpacity": 80, "lineWidth": 0}, "mappings": _words(panel.states)},
            "overrides": [],
        },
        "options": {
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "mergeValues": True,
            "perPage": 20,
            "rowHeight": 0.9,
            "showValue": "auto",
            "tooltip": {"maxHeight": 600, "mode": "single", "sort": "none"},
        },
    }


@shape.register
def _table(panel: Table, refs: Sequence[str]) -> Json:
    columns = [(ref, column) for ref, column in _by_ref(panel.columns) if ref in refs]
    values = {f"Value #{ref}" if len(columns) > 1 else "Value": column.title for ref, column in columns}
    shown = {**panel.keys, **values}
    overrides = [_column(column) for _, column in columns]
    if panel.row_links:
        overrides += [_override(next(iter(panel.keys.values())), links=_links(panel.row_links))]
    return {
        "type": "table",
        "fieldConfig": {
            "defaults": _defaults(panel)
            | {"custom": {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True}},
            "overrides": overrides,
        },
        "options": {
            "cellHeight": "sm",
            "showHeader": True,
            "sortBy": [{"desc": True, "displayName": panel.sort}],
        },
        "transformations": [
            {"id": "merge", "options": {}},
            {
                "id": "filterFieldsByName",
                "options": {"include": {"names": list(shown)}},
            },
            {
                "id": "organize",
                "options": {
                    "excludeByName": {},
                    "indexByName": {name: place for place, name in enumerate(shown)},
                    "renameByName": shown,
                },
            },
        ],
    }


def _by_ref(columns: Iterable[Column]) -> Iterable[tuple[str, Column]]:
    return ((chr(ord("A") + number), column) for number, column in enumerate(columns))


def _defaults(panel: Panel) -> Json:
    """Return what most kinds of panels have in common."""
    told: Json = {
        "color": {"mode": "thresholds"},
        "max": panel.top_value,
        "thresholds": _thresholds(panel.bands),
        "unit": panel.unit.value,
    }
    return {key: value for key, value in told.items() if value is not None}


def _thresholds(bands: Bands) -> Json:
    steps: list[Json] = [{"color": bands.start.value, "value": None}]
    steps += [{"color": colour.value, "value": at} for at, colour in bands.steps]
    return {"mode": "absolute", "steps": steps}


def _words(states: Iterable[State]) -> list[Json]:
    told = {
        str(state.value): {"color": state.colour.value, "index": place, "text": state.text}
        for place, state in enumerate(states)
    }
    return [{"options": told, "type": "value"}] if told else []


def _override(name: str, **properties: Any) -> Json:
    return {
        "matcher": {"id": "byName", "options": name},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


def _coloured(colours: Mapping[str, Colour]) -> list[Json]:
    return [
        _override(name, color={"fixedColor": colour.value, "mode": "fixed"})
        for name, colour in colours.items()
    ]


def _column(column: Column) -> Json:
    told: Json = {"unit": column.unit.value}
    if column.words:
        told["mappings"] = _words(column.words)
    if column.bands is not None:
        told["thresholds"] = _thresholds(column.bands)
    if column.words or column.bands is not None:
        told["custom.cellOptions"] = {"type": "color-text"}
    return _override(column.title, **told)


def _links(links: Iterable[Link]) -> list[Json]:
    return [{"title": link.title, "url": link.url} for link in links]
