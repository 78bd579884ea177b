"""The boards as a whole: what a person finds on them, and which numbers they compare with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.boards import panels
from vllm_observe import thresholds
from vllm_observe.dashboards import BOARDS, Options, render
from vllm_observe.dashboards.annotations import ANNOTATIONS
from vllm_observe.dashboards.metrics import own
from vllm_observe.dashboards.panels import Unit
from vllm_observe.model import Phases
from vllm_observe.preview.units import formatter

RENDERED = render()
WANTED = ["datasource", "job", "model_name", "instance", "engine", "service_class", "profile"]


def test_the_six_boards_are_there_with_stable_uids():
    assert [board["uid"] for board in RENDERED.values()] == [
        "vllm-observe-overview",
        "vllm-observe-engine",
        "vllm-observe-requests",
        "vllm-observe-service-levels",
        "vllm-observe-rollout",
        "vllm-observe-sidecar",
    ]


#: What the people who open each board must find there.
FOUND_ON = {
    "overview": "Alerts firing; Servers in trouble; Servers by state; Running, waiting and the limit; KV-cache usage, "
    "fullest engine; KV-cache usage, spread between engines; Tokens in; Tokens out; Time to first token; Inter-token "
    "latency; Request duration; Outcomes for clients; Servers; Firing alerts",
    "engine": "Slots used; Waiting by reason; KV-cache usage; KV-cache tokens in use; Preemptions; Prefix-cache hit "
    "rate; Where a request's time goes; Tokens per step; Drafted tokens accepted; LoRA adapters now; Sleep; "
    "Imbalance between engines; HTTP answers by status; Processor time of the API process; Memory of the API "
    "process; GPU utilisation; GPU memory; GPU power; GPU XID errors",
    "requests": "Requests by profile; Requests by outcome; Time to first token, p95 as felt; Duration, p95 as felt; Slow and "
    "failed requests by cause; Where the time went; Prompt tokens served from the prefix cache; Retries; Active "
    "sessions; Disconnects that vLLM did not count; Join coverage",
    "service-levels": "Targets met; First tokens, interactive: kept; First tokens, interactive: burn rate; First "
    "tokens, interactive: budget left; Availability: kept; Availability: burn rate; Availability: budget left",
    "rollout": "Share of the finished requests; Running and waiting: drained at zero; Start-up time; Errors by side",
    "sidecar": "vLLM seen; Lag behind the log; Dropped, by bound; Duration of a scrape of vLLM",
}


@pytest.mark.parametrize(("board", "titles"), FOUND_ON.items())
def test_a_board_has_what_is_looked_for_on_it(board, titles):
    there = {panel["title"] for panel in panels(RENDERED[board])}

    assert there >= set(titles.split("; "))


def test_every_label_can_be_picked_on_every_board_so_that_links_lose_none():
    for board in RENDERED.values():
        names = [variable["name"] for variable in board["templating"]["list"]]
        assert names[: len(WANTED)] == WANTED


def test_what_many_deployments_lack_is_folded():
    engine = RENDERED["engine"]
    folded = {row["title"] for row in engine["panels"] if row["type"] == "row" and row["collapsed"]}

    assert len(folded) == 4
    lacking = re.compile("spec_decode|lora|nixl|kv_offload|DCGM")
    for row in engine["panels"]:
        for panel in [] if row["type"] == "row" else [row]:
            assert not any(lacking.search(target["expr"]) for target in panel["targets"])


@pytest.mark.parametrize(
    ("title", "bounds"),
    [
        ("Slots used", [thresholds.SLOTS_NEAR_LIMIT, thresholds.SLOTS_EXHAUSTED]),
        ("KV-cache usage", [thresholds.KV_NEAR_FULL, thresholds.KV_FULL]),
        ("Mean time in the queue", [thresholds.QUEUE_TIME_HIGH_S, thresholds.QUEUE_TIME_CRITICAL_S]),
        ("First tokens, interactive: burn rate", [1.0, 3.0, 6.0, 14.4]),
        ("Join coverage", [thresholds.JOIN_COVERAGE_LOW]),
    ],
)
def test_colours_change_where_the_alerts_begin(title, bounds):
    (panel,) = [panel for board in RENDERED.values() for panel in panels(board) if panel["title"] == title]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]

    assert [step["value"] for step in steps] == [None, *bounds]
    assert panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"


def test_single_requests_are_asked_for_where_the_metric_has_them():
    with_exemplars = {
        panel["title"]
        for board in RENDERED.values()
        for panel in panels(board)
        if any(target["exemplar"] for target in panel["targets"])
    }
    on_histograms = {
        panel["title"]
        for panel in panels(RENDERED["requests"])
        if any(
            own(name).name + "_bucket" in target["expr"]
            for name in ("request_ttft_seconds", "request_duration_seconds")
            for target in panel["targets"]
        )
    }

    assert with_exemplars == on_histograms != set()


def test_the_table_of_servers_leads_down_to_the_engine_board():
    (table,) = [panel for panel in panels(RENDERED["overview"]) if panel["title"] == "Servers"]
    (links,) = [
        item["value"]
        for override in table["fieldConfig"]["overrides"]
        for item in override["properties"]
        if item["id"] == "links"
    ]

    assert links[0]["url"].startswith(f"/d/{RENDERED['engine']['uid']}?${{__url_time_range}}&")
    assert "var-instance=${__data.fields.Instance}" in links[0]["url"]
    assert "${datasource:queryparam}" in links[0]["url"]


def test_restarts_models_and_firing_alerts_are_marked():
    for board in RENDERED.values():
        marks = board["annotations"]["list"]
        assert [mark["name"] for mark in marks] == [it.name for it in ANNOTATIONS]
        assert all(mark["target"]["expr"] for mark in marks)


def test_boards_do_not_compare_with_numbers_of_their_own():
    """Alert lines come from thresholds.py: the vocabulary of bands is given names, not numbers."""
    folder = Path(__file__).parents[2] / "vllm_observe" / "dashboards" / "boards"
    literals = {
        (file.name, found)
        for file in folder.glob("*.py")
        for found in re.findall(r"\b(?:above|below)\(([0-9][^)]*)\)", file.read_text(encoding="utf-8"))
    }

    # One server in trouble, one alert, one restart, one busy core; half of a budget: counts, not limits.
    assert {found.split(",")[0] for _, found in literals} <= {"1", "0.5"}


def test_without_a_sidecar_its_boards_and_panels_are_left_out():
    alone = render(Options(vllm_version="0.32.0"))

    assert "sidecar" not in alone
    assert "requests" not in alone
    assert {board.name for board in BOARDS if not board.of_sidecar} == alone.keys()
    titles = {panel["title"] for panel in panels(alone["engine"])}
    assert "KV-cache usage" in titles
    assert "Slots used" not in titles


def test_a_single_number_is_named_where_its_query_has_a_name():
    for board in RENDERED.values():
        for panel in panels(board):
            if panel["type"] == "stat":
                named = any(target["legendFormat"] != "__auto" for target in panel["targets"])
                assert panel["options"]["textMode"] == ("value_and_name" if named else "auto"), panel["title"]


def test_no_two_states_of_a_timeline_look_alike():
    for board in RENDERED.values():
        for panel in panels(board):
            if panel["type"] == "state-timeline":
                (words,) = panel["fieldConfig"]["defaults"]["mappings"]
                colours = [told["color"] for told in words["options"].values()]
                assert len(set(colours)) == len(colours), panel["title"]


@pytest.mark.parametrize("part", ["queue", "prefill", "decode"])
def test_a_phase_has_one_colour_on_all_boards(part):
    def coloured(board, title):
        (panel,) = [it for it in panels(RENDERED[board]) if it["title"] == title]
        return {
            override["matcher"]["options"]: told["value"]["fixedColor"]
            for override in panel["fieldConfig"]["overrides"]
            for told in override["properties"]
            if told["id"] == "color"
        }

    joined, measured = (
        coloured("requests", "Where the time went"),
        coloured("engine", "Where a request's time goes"),
    )
    assert joined.keys() == set(Phases.__struct_fields__)
    assert joined[part] == measured[part]
    assert len(set(joined.values())) == len(joined)


def test_no_legend_ends_in_a_bare_rank():
    for board in RENDERED.values():
        for panel in panels(board):
            for target in panel.get("targets", []):
                legend = target["legendFormat"]
                assert "{{engine}}" not in legend.replace("engine {{engine}}", ""), panel["title"]


@pytest.mark.parametrize(
    "options", [Options(), Options(vllm_version="0.11.0"), Options(metric_prefix="ray_vllm:")]
)
def test_a_link_from_a_row_keeps_all_that_is_picked_and_names_nothing_else(options):
    board = render(options)["overview"]
    there = {variable["name"] for variable in board["templating"]["list"]}
    (servers,) = [panel for panel in panels(board) if panel["title"] == "Servers"]
    (url,) = re.findall(r'"url": "(/d/vllm-observe-engine[^"]*)"', json.dumps(servers))
    kept = set(re.findall(r"\$\{(\w+):queryparam\}", url)) | set(re.findall(r"var-(\w+)=", url))

    assert kept | {"engine"} == there  # a row is of all the engines of a server


def test_no_rate_is_written_in_thousandths():
    told = {"suffix:/s": (0.8, "0.800 /s"), "count:tok/s": (0.8, "0.800 tok/s")}
    for unit, (value, written) in told.items():
        assert Unit(unit)
        assert formatter(unit)(value, 3) == written
    assert not any(unit.value.startswith("si:") for unit in Unit)
