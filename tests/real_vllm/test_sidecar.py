"""The sidecar between a real vLLM and a real Prometheus: see conftest.py for the play."""

from __future__ import annotations

import collections


def test_prometheus_sees_all_slots_taken_and_a_queue(stage, loaded):
    def peak(expression):
        return stage.value(f"max_over_time({expression}[{loaded.length}])", at=loaded.ended)

    assert peak("vllm:num_requests_running") == 8
    assert peak("vllm_observe_sequence_utilization_ratio") == 1.0
    assert peak("vllm:num_requests_waiting") > 0
    assert peak('vllm_observe_binding_limit{limit="slots"}') == 1


def test_the_limit_is_found_out_without_a_setting(stage, loaded):
    assert stage.value("vllm_observe_max_num_seqs", at=loaded.ended) == 8
    (info,) = stage.query("vllm_observe_target_info", at=loaded.ended)
    assert info.labels["limits_source"] == "command_line"


def test_the_app_wrote_down_every_request_that_it_sent(app, loaded, restarted):
    written = app.log.read_text(encoding="utf-8").splitlines()
    assert len(written) == len(loaded.log) + 24
    assert {record["status"] for record in (*loaded.log, *restarted.act.log)} == {200}


def test_every_request_is_counted_once_under_its_profile(stage, loaded):
    by_profile = 'sum by (profile) (vllm_observe_requests_total{outcome="ok"}) > 0'
    counted = {point.labels["profile"]: point.value for point in stage.query(by_profile, at=loaded.ended)}
    assert counted == collections.Counter(record["profile"] for record in loaded.log)
    assert stage.value("sum(vllm_observe_requests_total)", at=loaded.ended) == len(loaded.log)
    assert stage.value("sum(vllm_observe_log_unparsed_total)", at=loaded.ended) == 0


def test_every_request_is_closed_by_the_join(stage, loaded):
    assert stage.value("sum(vllm_observe_join_closed_total)", at=loaded.ended) == len(loaded.log)
    assert stage.value("vllm_observe_join_pending", at=loaded.ended) == 0


def test_the_requests_tokens_add_up_to_vllms(stage, loaded):
    def of_requests(kind):
        return stage.value(f'sum(vllm_observe_request_tokens_total{{kind="{kind}"}})', at=loaded.ended)

    assert of_requests("prompt") == loaded.engine["vllm:prompt_tokens_total"]
    assert of_requests("completion") == loaded.engine["vllm:generation_tokens_total"]
    assert of_requests("completion") == sum(record["completion_tokens"] for record in loaded.log)


def test_an_exemplar_leads_from_a_bucket_to_a_request_in_the_log(stage, loaded):
    exemplars = stage.exemplars(
        "vllm_observe_request_duration_seconds_bucket", start=loaded.began, end=loaded.ended
    )
    sessions = {record["request_id"]: record["session_id"] for record in loaded.log}
    assert exemplars
    assert all(sessions[labels["request_id"]] == labels["session_id"] for labels in exemplars)


def test_no_request_and_no_session_is_a_label(stage, loaded):
    for name in ("request_id", "session_id"):
        assert stage.query(f'{{job="sidecar", {name}!=""}}', at=loaded.ended) == []


def test_a_stopped_engine_is_absent_and_not_zero(stage, restarted):
    assert stage.query('{__name__=~"vllm:.+"}', at=restarted.down_at) == []
    assert stage.value("vllm_observe_scrape_success", at=restarted.down_at) == 0
    assert stage.value('vllm_observe_scrape_failures_total{reason="connection"}', at=restarted.down_at) > 0


def test_losing_the_engine_does_not_lose_the_requests(stage, loaded, restarted):
    assert stage.value("sum(vllm_observe_requests_total)", at=restarted.down_at) == len(loaded.log)


def test_a_restart_is_counted_once(stage, loaded, restarted):
    restarts = "sum(vllm_observe_engine_restarts_total)"
    assert stage.value(restarts, at=loaded.ended) == 0
    assert stage.value(restarts, at=restarted.act.ended) == 1


def test_an_engines_restart_resets_its_counters_once_and_ours_never(stage, restarted):
    for counter, expected in {
        "vllm:generation_tokens_total": 1,
        'vllm:request_success_total{finished_reason="length"}': 1,
        "vllm_observe_requests_total": 0,
        "vllm_observe_request_tokens_total": 0,
        "vllm_observe_log_lines_total": 0,
    }.items():
        resets = f"max(resets({counter}[{restarted.act.length}]))"
        assert stage.value(resets, at=restarted.act.ended) == expected, counter


def test_no_rate_is_negative_over_a_restart(stage, restarted):
    for counter in ("vllm:generation_tokens_total", "vllm_observe_requests_total"):
        lowest = f"min(min_over_time(rate({counter}[10s])[{restarted.act.length}:1s]))"
        assert stage.value(lowest, at=restarted.act.ended) >= 0


def test_the_second_life_starts_from_its_own_counters(stage, restarted):
    tokens = stage.value("sum(vllm:generation_tokens_total)", at=restarted.act.ended)
    assert tokens == sum(record["completion_tokens"] for record in restarted.act.log)
