"""Boards as Grafana's JSON: the one module that knows grafanalib, and mends what it emits.

grafanalib's last release writes what Grafana read years ago: data sources by name, targets with keys
of other databases, bar gauges and heatmaps in shapes that are migrated wrongly. So a panel's looks come
from visuals.py, and what no Grafana reads any more is taken off.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from string import ascii_uppercase
from typing import Any

from grafanalib import core  # type: ignore[import-untyped]  # it has no types
from grafanalib._gen import DashboardEncoder  # type: ignore[import-untyped]  # the same

from vllm_observe.dashboards.annotations import ANNOTATIONS, Annotation
from vllm_observe.dashboards.layout import GRID, Place, place
from vllm_observe.dashboards.options import Options
from vllm_observe.dashboards.panels import BarGauge, Board, Heatmap, Link, Panel, Query, Table
from vllm_observe.dashboards.variables import DATASOURCE, SIDECAR, VARIABLES, Variable
from vllm_observe.dashboards.visuals import shape

__all__ = ["dashboard"]

#: The oldest schema that has all we use: Grafana 10.4 reads it, and newer ones migrate it without a loss.
_SCHEMA = 39
_PROMETHEUS = {"type": "prometheus", "uid": f"${{{DATASOURCE}}}"}
_TAG = "vllm-observe"
#: Ids come from titles, so that a new panel changes no other's, and a link to a panel stays right.
_IDS = 1_000_000

# What grafanalib writes and Grafana knows no more.
_LEGACY_PANEL = frozenset({"cacheTimeout", "editable", "error", "height", "minSpan", "span"})
_LEGACY_TIMEPICKER = frozenset({"nowDelay", "time_options"})
_LEGACY_BOARD = frozenset({"__inputs", "hideControls", "rows", "sharedCrosshair", "style"})
_LEGACY_VARIABLE = frozenset({"auto", "auto_count", "auto_min", "tagValuesQuery", "tagsQuery", "useTags"})
# All that there is to a row.
_ROW = frozenset({"collapsed", "gridPos", "id", "panels", "title", "type"})

Json = dict[str, Any]


class _Panel(core.Panel):  # type: ignore[misc]  # untyped base
    """A panel of any kind: its type and options come as ``extraJson``."""

    def to_json_data(self) -> Any:
        return self.panel_json({})


def dashboard(board: Board, options: Options, boards: Iterable[Board]) -> Json:
    """Return a board's JSON, as Grafana imports it.

    Panels, and rows of them, that nothing could ever fill under these options are left out.

    Args:
        board: what to render.
        options: under which names.
        boards: all that are rendered together; each links to the others.
    """
    made = core.Dashboard(
        title=board.title,
        uid=board.uid,
        description=board.summary,
        tags=[_TAG],
        schemaVersion=_SCHEMA,
        timezone="browser",
        time=core.Time("now-1h", "now"),
        refresh="30s",
        graphTooltip=core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
        links=[_board_link(other) for other in boards if other is not board],
        annotations=core.Annotations(
            [_annotation(it, options) for it in ANNOTATIONS if options.answers(it.expr)]
        ),
        templating=core.Templating(list(_variables(board, options))),
        panels=list(_rows(board, options)),
    )
    return _mended(json.loads(json.dumps(made, cls=DashboardEncoder)))


def _mended(board: Json) -> Json:
    """Take off what Grafana knows no more and what says nothing."""
    board = _without(board, _LEGACY_BOARD)
    board["panels"] = [_mended_panel(panel) for panel in board["panels"]]
    board["templating"]["list"] = [_without(it, _LEGACY_VARIABLE) for it in board["templating"]["list"]]
    board["timepicker"] = _without(board["timepicker"], _LEGACY_TIMEPICKER)
    return board


def _mended_panel(panel: Json) -> Json:
    if panel["type"] != core.ROW_TYPE:
        return _without(panel, _LEGACY_PANEL)
    row = {key: value for key, value in panel.items() if key in _ROW}
    return row | {"panels": [_mended_panel(inner) for inner in panel["panels"]]}


def _without(data: Json, legacy: frozenset[str]) -> Json:
    return {key: value for key, value in data.items() if key not in legacy and value is not None}


def _board_link(other: Board) -> core.DashboardLink:
    return core.DashboardLink(
        type="link",
        title=other.title.removeprefix("vLLM ").capitalize(),
        tooltip=other.summary,
        icon="dashboard",
        uri=f"/d/{other.uid}",
        keepTime=True,
        includeVars=True,
    )


def _annotation(annotation: Annotation, options: Options) -> Json:
    return {
        "datasource": _PROMETHEUS,
        "enable": True,
        "hide": False,
        "iconColor": annotation.colour.value,
        "name": annotation.name,
        "target": {"expr": options.text(annotation.expr.text), "interval": "30s", "refId": "Anno"},
        "textFormat": annotation.text,
        "titleFormat": annotation.title,
    }


def _variables(board: Board, options: Options) -> Iterator[core.Template | Json]:
    datasource = core.Template(name=DATASOURCE, label="Data source", type="datasource", query="prometheus")
    yield datasource.to_json_data() | {"current": {}}  # the default one, whatever its name
    for name in board.variables:
        if options.behind_sidecar or not VARIABLES[name].own:
            yield _variable(name, VARIABLES[name], options)
    if options.behind_sidecar:
        address = "http://localhost:9810"
        yield {
            "current": {"text": address, "value": address},
            "description": "Where your browser reaches a sidecar's admin API (--admin-listen): links to requests lead there.",
            "label": "Sidecar",
            "name": SIDECAR,
            "query": address,
            "type": "textbox",
        }


def _variable(name: str, variable: Variable, options: Options) -> Json:
    query = options.text(variable.query)
    template = core.Template(
        name=name,
        label=variable.label,
        query={"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        dataSource=_PROMETHEUS,
        multi=True,
        includeAll=True,
        allValue=variable.everything or None,
        refresh=core.REFRESH_ON_TIME_RANGE_CHANGE,
        sort=core.SORT_ALPHA_ASC,
    )
    variable_json: Json = template.to_json_data()
    return variable_json | {
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "definition": query,
        "description": variable.help,
    }


def _rows(board: Board, options: Options) -> Iterator[core.Panel]:
    top = 0
    for row in board.rows:
        panels = [panel for panel in row.panels if options.shows(panel)]
        if not panels:
            continue
        placed = list(place(panels, top + 1))
        made = [_panel(panel, where, options) for panel, where in placed]
        yield core.RowPanel(
            title=row.title,
            id=_id(row.title),
            gridPos=core.GridPos(h=1, w=GRID, x=0, y=top),
            collapsed=row.collapsed,
            panels=made if row.collapsed else [],
        )
        if row.collapsed:
            top += 1
        else:
            yield from made
            top = max(where.y + where.height for _, where in placed)


def _id(title: str) -> int:
    return 1 + zlib.crc32(title.encode()) % _IDS


def _panel(panel: Panel, where: Place, options: Options) -> _Panel:
    asked = [
        (ascii_uppercase[number], query)
        for number, query in enumerate(panel.asked)
        if options.answers(query.expr)
    ]
    if isinstance(panel, Table):
        links = tuple(Link(link.title, options.link(link.url)) for link in panel.row_links)
        panel = replace(panel, row_links=links)
    return _Panel(
        title=panel.title,
        description=panel.description,
        id=_id(panel.title),
        gridPos=core.GridPos(h=where.height, w=where.width, x=where.x, y=where.y),
        dataSource=_PROMETHEUS,
        maxDataPoints=None,
        links=[core.DataLink(link.title, link.url) for link in panel.links],
        targets=[_target(ref, query, panel, options) for ref, query in asked],
        extraJson=shape(panel, [ref for ref, _ in asked]),
    )


_FORMATS = {Table: "table", Heatmap: "heatmap"}


def _target(ref: str, query: Query, panel: Panel, options: Options) -> Json:
    """Return a query. grafanalib's own has keys of other databases, and none for exemplars."""
    instant = isinstance(panel, Table | BarGauge)  # they show the last value alone
    return {
        "datasource": _PROMETHEUS,
        "editorMode": "code",
        "exemplar": query.exemplars,
        "expr": options.text(query.expr.text),
        "format": _FORMATS.get(type(panel), "time_series"),
        "instant": instant,
        "legendFormat": query.legend or "__auto",
        "range": not instant,
        "refId": ref,
    }
