"""What the vocabulary's queries answer, by promtool, on series made by hand."""

from __future__ import annotations

import subprocess

import pytest

from support.boards import asked, fill
from support.prometheus import prometheus_for
from vllm_observe.dashboards.boards.common import prefix_hit_rate
from vllm_observe.dashboards.metrics import own, vllm
from vllm_observe.dashboards.queries import max_by, quantile, rate, select, sum_by, total, whole_total
from vllm_observe.dashboards.variables import VARIABLES

A = 'job="vllm",instance="a:1"'
B = 'job="vllm",instance="b:1"'
RUNNING = "vllm:num_requests_running"


def query(board, title, ref="A"):
    """Return the query of a rendered panel."""
    (found,) = [
        it.expr for it in asked() if (it.board, it.panel["title"], it.target["refId"]) == (board, title, ref)
    ]
    return found


def timeline(title):
    """Return the query of one of the engine board's timelines, without the label that orders its rows."""
    return f"max without (_) ({query('engine', title)})"


def grows(a_second):
    """Return a counter that grows so much a second, in samples every 30 s."""
    return f"0+{a_second * 30:g}x30"


def test_an_engine_counts_once_however_many_processes_show_it(answers):
    answers(
        total(vllm("running"), "model_name").text,
        {
            f'{RUNNING}{{{A},model_name="m",engine="0",pid="1"}}': "0x30",
            f'{RUNNING}{{{A},model_name="m",engine="0",pid="2"}}': "8x30",
            f'{RUNNING}{{{A},model_name="m",engine="1",pid="2"}}': "3x30",
            f'{RUNNING}{{{B},model_name="m",engine="0"}}': "4x30",
        },
        {'{model_name="m"}': 15},
    )


@pytest.mark.parametrize(("known", "drawn"), [("a b", {'{model_name="m"}': 40}), ("a", {}), ("", {})])
def test_a_models_limit_is_drawn_where_it_is_known_of_each_engine(answers, known, drawn):
    limits = {"a": 8, "b": 32}
    answers(
        whole_total(own("max_num_seqs"), "model_name", beside=vllm("running")).text,
        {f'{RUNNING}{{{server},model_name="m",engine="0"}}': "4x30" for server in (A, B)}
        | {
            f'vllm_observe_max_num_seqs{{job="vllm",instance="{name}:1",model_name="m",engine="0"}}': f"{limits[name]}x30"
            for name in known.split()
        },
        drawn,
    )


def test_a_router_that_shows_its_engines_counts_none_of_them_again(answers):
    answers(
        total(vllm("running"), "model_name").text,
        {
            f'{RUNNING}{{{A},model_name="m",engine="0"}}': "8x30",
            'vllm:num_requests_running{job="router",instance="r:1",server="http://a:8000"}': "8x30",
        },
        {'{model_name="m"}': 8},
    )


def test_an_engine_without_the_label_of_newer_ones_counts_too(answers):
    answers(
        total(vllm("running"), "model_name").text,
        {
            f'{RUNNING}{{{A},model_name="m"}}': "2x30",
            f'{RUNNING}{{{B},model_name="m",engine="0"}}': "4x30",
        },
        {'{model_name="m"}': 6},
    )


CLASSES = {
    f'{RUNNING}{{{A},model_name="m",engine="0"}}': "1x30",
    f'{RUNNING}{{{B},model_name="m",engine="0"}}': "20x30",
    'vllm:num_requests_running{job="vllm",instance="c:1",model_name="m",engine="0"}': "300x30",
    f'vllm_observe_target_info{{{A},service_class="interactive"}}': "1x30",
    f'vllm_observe_target_info{{{B},service_class="batch"}}': "1x30",
}


@pytest.mark.parametrize(
    ("picked", "expected"), [(".*", 321), ("interactive", 301), ("batch", 320), ("(batch|interactive)", 321)]
)
def test_a_service_class_keeps_its_servers_and_those_of_none(answers, picked, expected):
    answers(
        total(vllm("running"), "model_name").text,
        CLASSES,
        {'{model_name="m"}': expected},
        service_class=picked,
    )


def test_a_share_of_nothing_is_absent(answers):
    idle = {
        f'vllm:prefix_cache_hits_total{{{A},model_name="m",engine="0"}}': "7x30",
        f'vllm:prefix_cache_queries_total{{{A},model_name="m",engine="0"}}': "9x30",
    }
    busy = {
        f'vllm:prefix_cache_hits_total{{{B},model_name="m",engine="0"}}': grows(3),
        f'vllm:prefix_cache_queries_total{{{B},model_name="m",engine="0"}}': grows(4),
    }

    answers(prefix_hit_rate("instance").text, idle | busy, {'{instance="b:1"}': 0.75})


def test_a_quantile_is_of_all_servers_together(answers):
    """One server answers 30 a second within 1 s, another 10 within 2 s: p50 is a third into the first bucket."""
    bucket = "vllm:time_to_first_token_seconds_bucket"
    answers(
        quantile(0.5, vllm("ttft"), "model_name").text,
        {
            f'{bucket}{{{A},model_name="m",engine="0",le="1.0"}}': grows(30),
            f'{bucket}{{{A},model_name="m",engine="0",le="2.0"}}': grows(30),
            f'{bucket}{{{A},model_name="m",engine="0",le="+Inf"}}': grows(30),
            f'{bucket}{{{B},model_name="m",engine="0",le="1.0"}}': grows(0),
            f'{bucket}{{{B},model_name="m",engine="0",le="2.0"}}': grows(10),
            f'{bucket}{{{B},model_name="m",engine="0",le="+Inf"}}': grows(10),
        },
        {'{model_name="m"}': 20 / 30},
    )


def test_waiting_requests_are_told_by_reason_where_a_release_does_and_together_where_not(answers):
    split = "vllm:num_requests_waiting_by_reason"
    waiting = "vllm:num_requests_waiting"
    answers(
        query("engine", "Waiting by reason"),
        {
            f'{split}{{{A},model_name="m",engine="0",reason="capacity"}}': "5x30",
            f'{split}{{{A},model_name="m",engine="0",reason="deferred"}}': "1x30",
            f'{waiting}{{{A},model_name="m",engine="0"}}': "6x30",
            f'{waiting}{{{B},model_name="m"}}': "9x30",
        },
        {'{reason="capacity"}': 5, '{reason="deferred"}': 1, '{reason="all"}': 9},
    )


def test_the_binding_limit_is_one_number_for_each_engine(answers):
    limits = ("slots", "kv", "token_budget", "deferred", "none")
    answers(
        timeline("What holds each engine back"),
        {
            f'vllm_observe_binding_limit{{{where},model_name="m",engine="0",limit="{limit}"}}': f"{limit == binds:d}x30"
            for where, binds in ((A, "token_budget"), (B, "none"))
            for limit in limits
        },
        {
            f'{{{A},model_name="m",engine="0"}}': 3,
            f'{{{B},model_name="m",engine="0"}}': 0,
        },
    )


def test_sleep_has_three_depths(answers):
    state = "vllm:engine_sleep_state"
    answers(
        timeline("Sleep"),
        {
            f'{state}{{{A},model_name="m",engine="{engine}",sleep_state="{name}"}}': f"{name == now:d}x30"
            for engine, now in enumerate(("awake", "weights_offloaded", "discard_all"))
            for name in ("awake", "weights_offloaded", "discard_all")
        },
        {f'{{{A},model_name="m",engine="{engine}"}}': engine for engine in range(3)},
    )


def test_only_the_newest_word_on_adapters_holds(answers):
    info = "vllm:lora_requests_info"
    labels = 'max_lora="2",waiting_lora_adapters="z"'
    answers(
        query("engine", "LoRA adapters now", "B"),
        {
            f'{info}{{{A},{labels},running_lora_adapters="x"}}': "1700000000x30",
            f'{info}{{{A},{labels},running_lora_adapters="x,y"}}': "1700000100x30",
        },
        {f'{{{A},{labels},running_lora_adapters="x,y"}}': 1700000100 * 1000},
    )


def test_behind_a_sidecar_each_adapter_is_a_row(answers):
    active = "vllm_observe_lora_adapter_active"
    answers(
        query("engine", "LoRA adapters now"),
        {
            f'{active}{{{A},adapter="x",state="running"}}': "1x30",
            f'{active}{{{A},adapter="y",state="waiting"}}': "0x30",
        },
        {f'{{{A},adapter="x",state="running"}}': 1, f'{{{A},adapter="y",state="waiting"}}': 0},
    )


def test_a_prompts_share_from_the_cache_is_of_those_that_tell_it(answers):
    tokens = "vllm_observe_request_tokens_total"
    answers(
        query("requests", "Prompt tokens served from the prefix cache"),
        {
            f'{tokens}{{{A},model_name="m",profile="coder",kind="prompt"}}': grows(1000),
            f'{tokens}{{{A},model_name="m",profile="coder",kind="cached"}}': grows(30),
            f'{tokens}{{{A},model_name="m",profile="coder",kind="uncached"}}': grows(10),
            f'{tokens}{{{A},model_name="m",profile="silent",kind="prompt"}}': grows(1000),
            f'{tokens}{{{A},model_name="m",profile="silent",kind="cached"}}': "0x30",
            f'{tokens}{{{A},model_name="m",profile="silent",kind="uncached"}}': "0x30",
            f'{tokens}{{{A},model_name="m",profile="",kind="cached"}}': grows(1),
            f'{tokens}{{{A},model_name="m",profile="",kind="uncached"}}': grows(1),
        },
        {'{profile="coder"}': 0.75, '{profile="no profile"}': 0.5},
    )


def test_two_releases_are_two_sides_and_a_server_that_tells_none_is_a_third(answers):
    answers(
        query("rollout", "Share of the finished requests"),
        {
            f'vllm:request_success_total{{{A},model_name="m",engine="0",finished_reason="stop"}}': grows(6),
            f'vllm:request_success_total{{{A},model_name="m",engine="1",finished_reason="stop"}}': grows(1),
            f'vllm:request_success_total{{{B},model_name="m",engine="0",finished_reason="stop"}}': grows(2),
            'vllm:request_success_total{job="vllm",instance="c:1",model_name="m",finished_reason="stop"}': grows(
                1
            ),
            f'vllm_observe_target_info{{{A},service_class="interactive",vllm_version="0.31.0"}}': "1x30",
            f'vllm_observe_target_info{{{B},service_class="interactive",vllm_version="0.32.0"}}': "1x30",
        },
        {
            '{model_name="m",vllm_version="0.31.0"}': 0.7,
            '{model_name="m",vllm_version="0.32.0"}': 0.2,
            '{model_name="m"}': 0.1,
        },
    )


def test_a_server_whose_release_is_learnt_late_is_no_error(answers):
    """Until its marker of staleness comes, the series without a release stands beside the one with it."""
    finished = 'vllm:request_success_total{{{},model_name="m",engine="0",finished_reason="stop"}}'
    info = 'vllm_observe_target_info{{{},service_class="interactive",vllm_version="{}"}}'
    answers(
        query("rollout", "Share of the finished requests"),
        {
            finished.format(A): grows(3),
            finished.format(B): grows(1),
            info.format(A, ""): "1x30",
            info.format(A, "0.32.0"): "1x30",
            info.format(B, ""): "1x30",
        },
        {'{model_name="m",vllm_version="0.32.0"}': 0.75, '{model_name="m"}': 0.25},
    )


def test_servers_in_trouble_are_counted_once_each_and_none_is_0(answers):
    down = {'up{job="vllm",instance="a:1"}': "1x30", 'up{job="vllm",instance="b:1"}': "0x30"}

    answers(query("overview", "Servers in trouble"), down, {"{}": 1})
    answers(query("overview", "Servers in trouble"), {'up{job="vllm",instance="a:1"}': "1x30"}, {"{}": 0})
    answers(query("overview", "Servers in trouble"), {}, {})


def first_tokens(where, metric, service_class, *, early, in_time, spelling):
    """Return 10 first tokens a second: so many within 2.5 s, so many within 30 s."""
    labels = f'{where},model_name="m"'
    return {
        f'{metric}_bucket{{{labels},le="2.5"}}': grows(early),
        f'{metric}_bucket{{{labels},le="{spelling}"}}': grows(in_time),
        f"{metric}_count{{{labels}}}": grows(10),
        f'vllm_observe_target_info{{{where},service_class="{service_class}"}}': "1x30",
    }


@pytest.mark.parametrize(("service_class", "bad"), [("interactive", 0.2), ("batch", 0.1)])
@pytest.mark.parametrize("spelling", ["30.0", "30"])
def test_a_first_token_is_late_by_its_own_class(answers, service_class, bad, spelling):
    felt = "vllm_observe_request_ttft_seconds"
    answers(
        query("service-levels", f"First tokens, {service_class}: kept"),
        first_tokens(A, felt, "interactive", early=8, in_time=10, spelling=spelling)
        | first_tokens(B, felt, "batch", early=2, in_time=9, spelling=spelling),
        {'{model_name="m"}': 1 - bad},
    )


def test_where_no_log_tells_of_first_tokens_vllm_does(answers):
    answers(
        query("service-levels", "First tokens, interactive: kept"),
        first_tokens(
            A, "vllm:time_to_first_token_seconds", "interactive", early=7, in_time=9, spelling="30.0"
        ),
        {'{model_name="m"}': 0.7},
    )


def test_clients_mistakes_and_leaving_use_no_budget(answers):
    """Of 10 requests one failed by itself, one was asked wrongly, two clients left: 1 of 7 counts."""
    outcome = "vllm_observe_requests_total"
    labels = f'{A},model_name="m",profile="p"'
    answers(
        query("service-levels", "Availability: kept"),
        {
            f'{outcome}{{{labels},outcome="ok"}}': grows(6),
            f'{outcome}{{{labels},outcome="error"}}': grows(2),
            f'{outcome}{{{labels},outcome="abort"}}': grows(2),
            f'{outcome}{{{labels},outcome="timeout"}}': grows(0),
            f'{outcome}{{{labels},outcome="rejected"}}': grows(0),
            f'vllm_observe_slow_requests_total{{{labels},cause="client_error"}}': grows(1),
        },
        {'{model_name="m"}': 1 - 1 / 7},
    )


def test_start_up_time_is_the_age_at_the_first_scrape(answers):
    """Started at 120 s and first scraped at 210 s. The other one started before the hour that is shown."""
    answers(
        query("rollout", "Start-up time"),
        {
            f"process_start_time_seconds{{{A}}}": "_x7 120x30",
            f"process_start_time_seconds{{{B}}}": "-9000x30",
        },
        {f"{{{A}}}": 90},
    )


def alerts():
    """Two warnings, a critical one for each of two windows, and what is not to be counted."""
    near = 'alertname="VLLMKVCacheNearFull",severity="warning"'
    fast = 'alertname="VLLMErrorBudgetBurn",severity="critical",alertstate="firing",model_name="m"'
    firing = (
        f'{near},alertstate="firing",model_name="m",instance="a:1",engine="0"',
        f'{near},alertstate="firing",model_name="m",instance="a:1",engine="1"',
        f'{near},alertstate="pending",model_name="n"',
        f'{fast},window="5m"',
        f'{fast},window="30m"',
        'alertname="NodeDown",severity="critical",alertstate="firing"',
    )
    return {f"ALERTS{{{labels}}}": "1x30" for labels in firing}


@pytest.mark.parametrize(("ref", "severity"), [("A", "critical"), ("B", "warning")])
def test_firing_alerts_are_counted_by_severity_whoever_else_has_their_names(answers, ref, severity):
    answers(query("overview", "Alerts firing", ref), alerts(), {"{}": 2})
    assert f'severity="{severity}"' in query("overview", "Alerts firing", ref)


def test_the_table_has_each_alert_that_is_counted_and_a_critical_one_before_a_warning(answers):
    of_m = 'model_name="m"'
    rows = {
        **{f'{{alertname="VLLMErrorBudgetBurn",{of_m},window="{one}"}}': 3 for one in ("5m", "30m")},
        **{f'{{alertname="VLLMKVCacheNearFull",{of_m},instance="a:1",engine="{one}"}}': 2 for one in "01"},
    }
    answers(query("overview", "Firing alerts"), alerts(), rows)
    answers(query("overview", "Firing alerts", "B"), alerts(), dict.fromkeys(rows, 1))


def test_one_profile_picked_is_one_profile_shown(answers):
    outcome = "vllm_observe_requests_total"
    answers(
        sum_by(rate(own("requests_total")), "profile").text,
        {
            f'{outcome}{{{A},model_name="m",profile="coder",outcome="ok"}}': grows(2),
            f'{outcome}{{{A},model_name="m",profile="",outcome="ok"}}': grows(3),
        },
        {'{profile="coder"}': 2},
        profile="coder",
    )


def test_all_of_a_variable_holds_what_has_an_empty_value(answers):
    assert VARIABLES["profile"].everything == ".*"
    answers(
        max_by(select(own("active_sessions")), "instance").text,
        {f"vllm_observe_active_sessions{{{A}}}": "4x30"},
        {'{instance="a:1"}': 4},
    )


def test_bytes_offloaded_are_counted_once_where_a_release_tells_them_under_both_names(answers):
    """Since 0.24 there is a counter for each direction; the one with the direction as a label is still there."""
    labels = f'{A},model_name="m",engine="0"'
    old = 'vllm:kv_offload_total_bytes_total{{{},model_name="m",engine="0",transfer_type="{}"}}'
    answers(
        query("engine", "Offloaded bytes"),
        {
            f"vllm:kv_offload_load_bytes_total{{{labels}}}": grows(100),
            old.format(A, "CPU_to_GPU"): grows(100),
            old.format(A, "GPU_to_CPU"): grows(500),
            old.format(B, "CPU_to_GPU"): grows(7),
            old.format(B, "GPU_to_CPU"): grows(300),
        },
        {f"{{{A}}}": 100, f"{{{B}}}": 7},
    )


def test_a_timeline_keeps_the_engine_that_was_in_trouble_for_a_while(answers):
    """Twelve engines; one was stalled for ten minutes and is well again: it is one of the ten that stay."""
    stalled = "vllm_observe_engine_stalled"
    well = {f'{stalled}{{{A},model_name="m",engine="{number}"}}': "0x40" for number in range(11)}
    answers(
        f"count({timeline('Stalled')})",
        {**well, f'{stalled}{{{A},model_name="m",engine="11"}}': "1x10 0x30"},
        {"{}": 10},
    )
    answers(
        f'{timeline("Stalled")} and on (engine) {stalled}{{engine="11"}}',
        {**well, f'{stalled}{{{A},model_name="m",engine="11"}}': "1x10 0x30"},
        {f'{{{A},model_name="m",engine="11"}}': 0},
    )


def test_a_burn_rate_of_less_than_a_thousandth_is_none(answers):
    """Of 10 first tokens a second 9.9999 are in time: two ten-thousandths of what is allowed."""
    answers(
        query("service-levels", "First tokens, interactive: burn rate"),
        first_tokens(
            A, "vllm_observe_request_ttft_seconds", "interactive", early=9.9999, in_time=10, spelling="30.0"
        ),
        {'{model_name="m"}': 0},
    )


def test_the_ranks_of_a_server_stand_together_in_a_timeline(promtool, prometheus, tmp_path):
    """Prometheus sorts by the first label whose values differ, in the labels' own order: engine, instance, job."""
    ranks = [(server, rank) for server in ("a:1", "b:1", "c:1") for rank in "012"]
    lines = [
        f'vllm_observe_engine_stalled{{job="vllm",instance="{server}",model_name="m",engine="{rank}"}} 0 {at}'
        for at in range(0, 601, 30)
        for server, rank in ranks
    ]
    (tmp_path / "samples.om").write_text("\n".join([*lines, "# EOF\n"]))
    blocks = [promtool, "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
    subprocess.run([*blocks, tmp_path / "samples.om", tmp_path / "data"], check=True, capture_output=True)

    with prometheus_for(prometheus, {}, tmp_path) as server:
        rows = server.over(fill(query("engine", "Stalled")), start=0, end=600, step=30)

    assert [(row.labels["instance"], row.labels["engine"]) for row in rows] == ranks
