"""What a person finds in the picture of each kind of panel."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import same_color

from vllm_observe.preview.looks import colour

NAN = float("nan")
RATIO = {"defaults": {"unit": "percentunit"}, "overrides": []}
LIMITS = [{"color": "green", "value": None}, {"color": "red", "value": 0.9}]
LEGEND = {"legend": {"showLegend": True, "calcs": ["lastNotNull", "mean", "max"]}}


def test_a_graph_has_a_line_a_series_and_a_legend_by_its_last_value(panel, series, drawn):
    picture = drawn(
        panel("timeseries", fieldConfig=RATIO, options=LEGEND),
        series("low", 0.0, 0.25, 0.5),
        series("high", 0.5, 1.0, 0.75),
    )

    assert picture.texts == [
        "A panel",
        *("Last", "Mean", "Max"),
        *("high", "75%", "75%", "100%"),
        *("low", "50%", "25%", "50%"),
    ]
    (axes,) = picture.axes
    assert [label.get_text() for label in axes.get_yticklabels()][-1].endswith("%")
    assert sum(len(line.get_xdata()) == 3 for line in axes.lines) == 2


def test_thresholds_are_lines_where_the_board_says_so(panel, series, drawn):
    def lines(style):
        defaults = {"thresholds": {"steps": LIMITS}, "custom": {"thresholdsStyle": {"mode": style}}}
        (axes,) = drawn(panel("timeseries", fieldConfig={"defaults": defaults}), series("a", 1, 2)).axes
        return [line for line in axes.lines if list(line.get_ydata()) == [0.9, 0.9]]

    assert [line.get_color() for line in lines("dashed")] == [colour("red")]
    assert not lines("off")


def test_stacked_series_stand_on_each_other(panel, series, drawn):
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 60, "lineWidth": 0}
    stacked = panel("timeseries", fieldConfig={"defaults": {"custom": custom}})
    (axes,) = drawn(stacked, series("a", 1, 1, 1), series("b", 2, NAN, 4)).axes

    tops = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) == 3]
    assert np.array_equal(tops[1], [3, NAN, 5], equal_nan=True)
    assert axes.get_ylim()[1] > 5


def test_a_soft_end_gives_way_to_what_is_beyond_it(panel, series, drawn):
    def top(*values):
        custom = {"axisSoftMin": 0, "axisSoftMax": 1}
        graph = panel("timeseries", fieldConfig={"defaults": {"custom": custom}})
        return drawn(graph, series("a", *values)).axes[0].get_ylim()

    low, high = top(0.2, 0.4)
    assert low == 0
    assert 1 < high < 1.03
    assert top(0.2, 3.0)[1] > 3


def test_a_line_along_the_soft_end_is_seen_whole(panel, series, drawn):
    custom = {"axisSoftMin": 0, "axisSoftMax": 1, "lineWidth": 1}
    (axes,) = drawn(
        panel("timeseries", fieldConfig={"defaults": {"custom": custom}}), series("a", 1, 1, 1)
    ).axes

    line = axes.lines[0]
    half = line.get_linewidth() / 72 * axes.figure.dpi / 2
    edge, course = (axes.transData.transform((0, y))[1] for y in (axes.get_ylim()[1], 1))
    assert edge - course > half


def test_a_legend_says_how_many_it_leaves_out(panel, series, drawn):
    many = [series(f"server-{number}", number, number) for number in range(200)]
    texts = drawn(panel("timeseries", options=LEGEND), *many).texts

    assert "server-199" in texts
    shown = sum(text.startswith("server-") for text in texts)
    assert texts[-1] == f"and {200 - shown} more"
    assert shown <= 8


def test_a_stat_shows_each_last_value_in_its_colour(panel, series, drawn):
    config = {"defaults": {"unit": "percentunit", "thresholds": {"steps": LIMITS}}}
    picture = drawn(panel("stat", fieldConfig=config), series("a", 0.95), series("b", 0.2, NAN))

    assert picture.texts == ["A panel", "a", "95%", "b", "20%"]
    assert picture.colours["95%"] == colour("red")
    assert picture.colours["20%"] == colour("green")


def test_a_single_number_has_its_name_where_the_board_says_so(panel, series, drawn):
    def texts(mode):
        return drawn(panel("stat", options={"textMode": mode}), series("stalled", 1)).texts

    assert texts("auto") == ["A panel", "1"]
    assert sorted(texts("value_and_name")) == ["1", "A panel", "stalled"]


def test_words_stand_in_place_of_numbers(panel, series, drawn):
    words = [{"type": "value", "options": {"0": {"text": "down", "color": "red"}}}]
    picture = drawn(panel("stat", fieldConfig={"defaults": {"mappings": words}}), series("a", 0))

    assert picture.colours["down"] == colour("red")


def test_a_bar_is_as_long_as_its_share_of_the_scale(panel, series, drawn):
    config = {"defaults": {"unit": "short", "min": 0, "max": 10}}
    picture = drawn(panel("bargauge", fieldConfig=config), series("a", 5.0), series("b", 20.0))

    assert picture.texts == ["A panel", "a", "5", "b", "20"]


def test_a_table_is_merged_renamed_sorted_and_cut(panel, series, drawn):
    table = panel(
        "table",
        targets=[{"refId": "A"}, {"refId": "B"}],
        fieldConfig={
            "defaults": {},
            "overrides": [
                {
                    "matcher": {"id": "byName", "options": "Share"},
                    "properties": [
                        {"id": "unit", "value": "percentunit"},
                        {"id": "thresholds", "value": {"steps": LIMITS}},
                        {"id": "custom.cellOptions", "value": {"type": "color-text"}},
                    ],
                }
            ],
        },
        options={"sortBy": [{"displayName": "Share", "desc": True}]},
        transformations=[
            {"id": "filterFieldsByName", "options": {"include": {"names": ["who", "Value #A", "Value #B"]}}},
            {
                "id": "organize",
                "options": {
                    "indexByName": {"who": 0, "Value #A": 1, "Value #B": 2},
                    "renameByName": {"who": "Who", "Value #A": "Running", "Value #B": "Share"},
                },
            },
        ],
    )
    picture = drawn(
        table,
        series("", 1.0, who="x", hidden="h"),
        series("", 2.0, who="y", hidden="h"),
        series("", 0.5, ref="B", who="x", hidden="h"),
        series("", 0.95, ref="B", who="y", hidden="h"),
    )

    assert picture.texts == ["A panel", *("Who", "y", "x"), *("Running", "2", "1"), *("Share", "95%", "50%")]
    assert picture.colours["95%"] == colour("red")


def test_a_heatmap_shows_what_fell_into_each_bucket(panel, series, drawn):
    heatmap = panel("heatmap", options={"yAxis": {"unit": "s"}})
    # As Prometheus gives them: cumulative, and in no order.
    picture = drawn(
        heatmap, series("", 3, 4, le="+Inf"), series("", 1, 0, le="0.5"), series("", 3, 2, le="2.0")
    )

    (axes,) = picture.axes
    counted = axes.collections[0].get_array()
    assert counted.filled(0).tolist() == [[1, 0], [2, 2], [0, 2]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["500 ms", "2 s", "+Inf"]


def test_what_a_heatmap_filters_out_is_no_cell(panel, series, drawn):
    """A difference of two rates that should be 0 is a little more than that."""
    heatmap = panel("heatmap", options={"filterValues": {"le": 1e-9}})
    picture = drawn(heatmap, series("", 1, 1, le="1"), series("", 1 + 1e-14, 3, le="+Inf"))

    assert picture.axes[0].collections[0].get_array().mask.tolist() == [[False, False], [True, False]]


def test_a_state_timeline_has_a_bar_for_each_stretch(panel, series, drawn):
    words = [
        {
            "type": "value",
            "options": {"0": {"text": "fine", "color": "green"}, "1": {"text": "full", "color": "red"}},
        }
    ]
    timeline = panel("state-timeline", fieldConfig={"defaults": {"mappings": words}})
    picture = drawn(timeline, series("a", 0, 0, 1, NAN, 1, 0))

    (axes,) = picture.axes
    bars = [bars.get_facecolor()[0] for bars in axes.collections]
    assert [same_color(bar, colour("red")) for bar in bars] == [False, True, True, False]
    assert picture.texts == ["A panel", "a", "fine", "full"]
    assert [text.get_text() for text in axes.texts] == ["fine", "full", "full", "fine"]


def test_a_timelines_bar_without_room_for_its_state_has_no_text(panel, series, drawn):
    words = [{"type": "value", "options": {"1": {"text": "a state with a long name", "color": "red"}}}]
    timeline = panel("state-timeline", fieldConfig={"defaults": {"mappings": words}})
    picture = drawn(timeline, series("a", *([NAN] * 30), 1, *([NAN] * 30)))

    assert not picture.axes[0].texts


def test_without_series_the_panel_says_so(panel, drawn):
    assert drawn(panel("timeseries")).texts == ["A panel", "No data"]
    assert drawn(panel("stat", fieldConfig={"defaults": {"noValue": "none"}})).texts == ["A panel", "none"]


def test_a_refused_query_and_an_unknown_kind_are_told_in_their_panels(panel, drawn):
    assert drawn(panel("timeseries"), error="parse error").texts == ["A panel", "parse error"]
    assert "geomap" in " ".join(drawn(panel("geomap")).texts)


def test_a_row_that_is_folded_says_what_it_holds(panel, drawn):
    assert drawn(panel("row", collapsed=True, panels=[{}, {}])).texts == ["▸ A panel (2 panels)"]
    assert drawn(panel("row", collapsed=False)).texts == ["▾ A panel"]


def test_text_stands_without_its_markup(panel, drawn):
    text = panel("text", options={"content": "# Read [the *runbook*](https://example.org) <b>first</b>"})
    assert drawn(text).texts == ["A panel", "Read the runbook first"]


@pytest.mark.parametrize("kind", ["timeseries", "stat", "bargauge", "table", "heatmap", "state-timeline"])
def test_no_name_is_too_odd_to_be_drawn(panel, series, drawn, kind):
    odd = [
        series(name, 0.0, -1e300, NAN, 1e-300, le=str(place), who=name)
        for place, name in enumerate(["", "$\\frac", "模型" * 200, "a\nb\x00\x1b[31m", "<script>&\"'"])
    ]
    assert drawn(panel(kind, options=LEGEND), *odd, width=60, height=60).texts


@pytest.mark.parametrize("kind", ["timeseries", "stat", "bargauge", "table", "heatmap", "state-timeline"])
def test_some_hundred_series_fit(panel, series, drawn, kind):
    many = [series(f"{number}", number, 1, 2, le=f"{number}", server=f"{number}") for number in range(300)]
    picture = drawn(panel(kind, options=LEGEND), *many)

    assert len(picture.texts) < 350
