"""The rendered JSON against what Grafana asks of a board."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import pytest

from support.boards import RENDERED, panels
from vllm_observe.dashboards import BOARDS
from vllm_observe.dashboards.variables import VARIABLES

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

pytestmark = pytest.mark.parametrize("board", RENDERED.values(), ids=RENDERED)


def nodes(value):
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inner)


def test_the_schema_is_current(board):
    assert board["schemaVersion"] >= 39


def test_panel_ids_are_unique_and_titles_too(board):
    every = [*board["panels"], *(panel for row in board["panels"] for panel in row.get("panels", ()))]

    for key in ("id", "title"):
        assert [what for what, times in Counter(panel[key] for panel in every).items() if times > 1] == []


def test_ref_ids_are_unique_within_a_panel(board):
    for panel in panels(board):
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0


def test_every_data_source_is_the_one_that_is_picked(board):
    named = [node["datasource"] for node in nodes(board) if isinstance(node, dict) and "datasource" in node]

    assert len(named) > len(list(panels(board)))
    assert all(source == DATASOURCE for source in named)
    assert all(panel["datasource"] == DATASOURCE for panel in panels(board))
    assert all(target["datasource"] == DATASOURCE for panel in panels(board) for target in panel["targets"])


def test_every_line_of_panels_is_as_wide_as_the_grid(board):
    """Without the panels that a rendering leaves out, too."""
    lines: dict[int, int] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        lines[place["y"]] = lines.get(place["y"], 0) + place["w"]

    assert set(lines.values()) == {24}


def test_panels_fit_the_grid_and_do_not_overlap(board):
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    for group in (board["panels"], *(row["panels"] for row in rows if row["panels"])):
        places = [panel["gridPos"] for panel in group]
        assert all(place["x"] + place["w"] <= 24 for place in places)
        cells = [
            (x, y)
            for place in places
            for x, y in itertools.product(
                range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
            )
        ]
        assert len(set(cells)) == len(cells)


def test_a_folded_row_holds_its_panels_and_an_open_one_holds_none(board):
    for row in board["panels"]:
        if row["type"] == "row":
            assert bool(row["panels"]) == row["collapsed"]


def test_every_panel_says_what_it_shows_in_which_unit_and_what_to_do(board):
    for panel in panels(board):
        shows, means, first = panel["description"].split("\n\n")
        assert len(shows) > 10, panel["title"]
        assert len(means) > 20, panel["title"]
        assert first.startswith("**First:** ")
        unit = (
            panel["options"]["yAxis"]["unit"]
            if panel["type"] == "heatmap"
            else panel["fieldConfig"]["defaults"]["unit"]
        )
        assert unit


def test_heatmaps_draw_the_buckets_as_they_are(board):
    for panel in panels(board):
        if panel["type"] == "heatmap":
            assert panel["options"]["calculate"] is False
            assert [target["format"] for target in panel["targets"]] == ["heatmap"]


def test_links_to_the_other_boards_keep_time_and_variables(board):
    links = board["links"]

    assert len(links) == len({link["url"] for link in links})
    assert all(link["keepTime"] and link["includeVars"] for link in links)
    assert f"/d/{board['uid']}" not in {link["url"] for link in links}
    assert {link["url"] for link in links} <= {f"/d/{other.uid}" for other in BOARDS}


def test_label_variables_take_several_values_and_all(board):
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}

    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for name in variables.keys() & VARIABLES.keys():
        assert variables[name]["multi"]
        assert variables[name]["includeAll"]
        assert variables[name]["current"]["value"] == ["$__all"]
    # A query must not name what cannot be picked.
    text = json.dumps([target for panel in panels(board) for target in panel["targets"]])
    assert all(name in variables for name in VARIABLES if f'\\"${name}\\"' in text)


def test_graphs_with_many_series_show_the_largest_first(board):
    for panel in panels(board):
        if panel["type"] == "timeseries":
            legend = panel["options"]["legend"]
            assert (legend["displayMode"], legend["sortBy"], legend["sortDesc"]) == ("table", "Last *", True)
