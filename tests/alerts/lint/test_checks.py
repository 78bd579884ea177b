"""Each check on rules that have the fault, and on the nearest ones that have not."""

from __future__ import annotations

import re

import pytest

from support.linting import PLAIN, SIDECAR, a_recording, an_alert, found, vocabulary_of
from vllm_observe.alerts.lint.checks import CHECKS
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.tables import of_release
from vllm_observe.signals import NEWEST

ERROR, WARNING, INFO = Level.ERROR, Level.WARNING, Level.INFO

_TTFT = "vllm:time_to_first_token_seconds"
_P95 = f"histogram_quantile(0.95, sum by (le) (rate({_TTFT}_bucket[5m])))"
_HITS = "sum(rate(vllm:prefix_cache_hits_total[5m]))"
_QUERIES = "sum(rate(vllm:prefix_cache_queries_total[5m]))"

_HTTP = "rate(http_requests_total[5m])"
_5XX = 'rate(http_requests_total{status="5xx"}[5m])'

#: Check, level, expression, and a word that the message must hold.
FAULTS = [
    ("unknown-metric", ERROR, "rate(vllm:num_preemptions[5m]) > 1", "write vllm:num_preemptions_total"),
    ("unknown-metric", ERROR, "vllm:num_request_running > 1", "did you mean vllm:num_requests_running"),
    ("unknown-metric", ERROR, "vllm:gpu_cache_usage_perc > 0.9", "vllm:kv_cache_usage_perc since vLLM 0.9.2"),
    ("unknown-metric", ERROR, "vllm:num_requests_swapped > 0", "from 0.6.6.post1 to 0.7.3"),
    ("unknown-metric", ERROR, f"{_TTFT} > 1", f"{_TTFT}_bucket"),
    ("unknown-metric", ERROR, "vllm_request_failure_total > 1", "does not exist"),
    ("unknown-metric", ERROR, "vllm_observe_max_num_seq > 1", "vllm_observe_max_num_seqs"),
    ("unknown-metric", INFO, "DCGM_FI_DEV_GPU_TEMP > 90", "another exporter's"),
    ("unknown-metric", INFO, "gateway_requests_pending > 9", "--exposition"),
    ("unknown-metric", INFO, "team:ttft:p95 > 1", "recorded in no file given"),
    ("unknown-metric", INFO, "vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc", "kv_cache_usage_perc"),
    ("unknown-metric", ERROR, "vllm_num_requests_waiting > 0", "write vllm:num_requests_waiting;"),
    ("unknown-metric", ERROR, "vllm_gpu_cache_usage_perc > 0.9", "vllm:kv_cache_usage_perc since"),
    ("unknown-metric", ERROR, "rate(vllm_time_to_first_token_seconds_count[5m]) > 1", f"write {_TTFT}_count;"),
    ("unknown-label", WARNING, 'rate(vllm:request_success_total{success="false"}[5m]) > 1', "finished_reason"),
    ("unknown-label", INFO, 'vllm:num_requests_running{colour="blue"} > 1', "scrape configuration adds"),
    ("unknown-value", ERROR, 'rate(vllm:request_success_total{finished_reason="aborted"}[5m]) > 1', "did you mean abort"),
    ("unknown-value", ERROR, 'vllm:num_requests_waiting_by_reason{reason="kv"} > 1', "capacity, deferred"),
    ("unknown-value", ERROR, 'vllm:engine_sleep_state{sleep_state="sleeping"} == 1', "weights_offloaded"),
    ("unknown-value", ERROR, 'rate(vllm:admission_rejections_total{reason="full"}[5m]) > 1', "max_num_queued_reqs"),
    ("unknown-value", ERROR, 'rate(vllm:prompt_tokens_by_source_total{source="cache"}[5m]) > 1', "local_cache_hit"),
    ("unknown-value", WARNING, 'rate(vllm:request_success_total{finished_reason!="aborted"}[5m]) > 1', "leaves nothing out"),
    ("unknown-value", WARNING, 'rate(http_requests_total{status="500"}[5m]) > 1', "if it is vLLM's"),
    ("unknown-value", WARNING, 'rate(http_requests_total{handler="/v1/chat/completion"}[5m]) > 1', "did you mean /v1/chat/completions"),
    ("le-value", ERROR, f'rate({_TTFT}_bucket{{le="2.0"}}[5m]) > 1', "nearest are 1.0 and 2.5"),
    ("le-value", ERROR, 'rate(vllm:e2e_request_latency_seconds_bucket{le="90.0"}[5m]) > 1', "nearest are 60.0 and 120.0"),
    ("unknown-label", ERROR, 'vllm:num_requests_running{reason="capacity"} > 1', "has no label reason"),
    ("unknown-label", WARNING, 'vllm:num_requests_waiting{model="llama"} > 1', "model_name"),
    ("unknown-label", WARNING, "sum by (model) (vllm:num_requests_waiting) > 1", "model_name"),
    ("unknown-label", WARNING, "sum by (reason) (vllm:num_requests_running) > 1", "reason"),
    ("unknown-value", ERROR, 'rate(vllm_observe_requests_total{outcome="abrt"}[5m]) > 1', "did you mean abort"),
    ("unknown-value", WARNING, 'rate(vllm_observe_requests_total{outcome=~"abort|eror"}[5m]) > 1', "eror"),
    ("unknown-value", WARNING, 'vllm_observe_lora_adapters{state=~"x.*"} != 1 or vllm_observe_binding_limit{limit!~".*"}', "leaves nothing"),
    ("le-value", ERROR, 'rate(vllm_observe_request_ttft_seconds_bucket{le="2"}[5m]) > 1', 'le="2.0"'),
    ("le-value", ERROR, 'rate(vllm_observe_request_ttft_seconds_bucket{le="4.0"}[5m]) > 1', "nearest are 3.0 and 5.0"),
    ("le-value", ERROR, 'rate(vllm_observe_request_ttft_seconds_bucket{le=~"4([.]0)?"}[5m]) > 1', "no bucket"),
    ("le-value", ERROR, f'rate({_TTFT}_bucket{{le="fast"}}[5m]) > 1', "a number or +Inf"),
    ("contradiction", ERROR, 'vllm:num_requests_running{pod="a",pod!="a"} > 1', "matches nothing"),
    ("contradiction", ERROR, 'vllm:num_requests_running{pod="a",pod=~"b.*"} > 1', "matches nothing"),
    ("unknown-label", WARNING, 'rate(vllm_observe_requests_total{outcomes!="ok"}[5m]) > 1', "always holds"),
    ("contradiction", ERROR, 'up{job="a",job="b"} == 0', "matches nothing"),
    ("fixed-outcome", ERROR, "up == 0 and up == 1", "no value of up satisfies all that `and` joins"),
    ("fixed-outcome", ERROR, f"{_HITS} - {_HITS} > 0", "as both sides of `-` are the same"),
    ("fixed-outcome", ERROR, f"clamp_min({_HITS}, 1) < 1", "what is compared is never below 1"),
    ("fixed-outcome", ERROR, "up > max_over_time(up[1h])", "give it an offset"),
    ("fixed-outcome", ERROR, "vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc > 0.9", "write (a or b) > 1"),
    ("fixed-outcome", WARNING, "sum(up > bool 1)", "> 1 is always 0"),
    ("ratio-as-percent", ERROR, "vllm:kv_cache_usage_perc > 90", "write > 0.9"),
    ("ratio-as-percent", ERROR, "90 < max(vllm:kv_cache_usage_perc)", "write > 0.9"),
    ("ratio-as-percent", ERROR, "vllm_observe_sequence_utilization_ratio >= 95", "write >= 0.95"),
    ("ratio-as-percent", ERROR, "vllm:kv_cache_usage_perc > 1", "from 0 to 1, and the whole of it is >= 1"),
    ("ratio-as-percent", ERROR, "100 * vllm:kv_cache_usage_perc > 100", "the whole of it is >= 100"),
    ("ratio-as-percent", ERROR, f"1 - {_HITS} / ({_QUERIES} > 0) > 14.4", "such as > 14.4 * 0.01"),
    ("ratio-as-percent", ERROR, "vllm:kv_cache_usage_perc < 90", "always true"),
    ("ratio-as-percent", ERROR, "100 * vllm:kv_cache_usage_perc > 900", "from 0 to 100"),
    ("ratio-as-percent", WARNING, "100 * vllm:kv_cache_usage_perc > 0.9", "write > 90"),
    ("ratio-as-percent", ERROR, f"{_HITS} / ({_QUERIES} > 0) < 30", "always true"),
    ("ratio-as-percent", ERROR, f"1 - {_HITS} / ({_QUERIES} > 0) > 30", "write > 0.3"),
    ("seconds-as-milliseconds", WARNING, f"{_P95} > 2500", "> 2.5"),
    ("seconds-as-milliseconds", WARNING, f"rate({_TTFT}_sum[5m]) / rate({_TTFT}_count[5m]) > 2000", "> 2"),
    ("seconds-as-milliseconds", ERROR, "histogram_quantile(0.5, rate(vllm:inter_token_latency_seconds_bucket[5m])) > 100", "> 0.1"),
    ("seconds-as-milliseconds", WARNING, "histogram_quantile(0.5, rate(vllm:inter_token_latency_seconds_bucket[5m])) > 50", "> 0.05"),
    ("seconds-as-milliseconds", ERROR, "histogram_quantile(0.9, rate(vllm_observe_request_ttft_seconds_bucket[5m])) > 2500", "largest bucket ends at 600"),
    ("seconds-as-milliseconds", WARNING, f"1000 * {_P95} > 2.5", "milliseconds with what looks like seconds"),
    ("one-sided-label", ERROR, f"sum by (le, model_name) (rate({_TTFT}_bucket[5m])) < sum by (model_name) (rate({_TTFT}_count[5m]))", "has le"),
    ("one-sided-label", ERROR, f'rate({_TTFT}_bucket{{le="1.0"}}[5m]) / rate({_TTFT}_count[5m]) < 0.9', "has le"),
    ("one-sided-label", ERROR, "vllm:num_requests_waiting_by_reason > vllm:num_requests_running", "has reason"),
    ("one-sided-label", ERROR, "up == 0 and vllm:num_requests_running > 0", "model_name"),
    ("one-sided-label", ERROR, "vllm:num_requests_waiting > 0 and scrape_samples_scraped > 9", "engine"),
    ("one-sided-label", ERROR, "vllm:num_requests_running unless sum by (job) (up)", "takes nothing away"),
    ("one-sided-label", WARNING, "sum by (pod) (vllm:num_requests_waiting) > sum(vllm:num_requests_running)", "keeps pod"),
    ("one-sided-label", ERROR, f'{_5XX} / rate(http_requests_total{{status="2xx"}}[5m]) > 0.05', 'status="5xx" on one side and "2xx"'),
    ("one-sided-label", ERROR, 'vllm:num_requests_running{model_name="x"} > 0 and vllm:num_requests_waiting{model_name="y"} > 0', "never match"),
    ("one-sided-label", ERROR, 'sum by (job) (up{job="a"}) unless sum by (job) (up{job="b"})', "takes nothing away"),
    ("many-to-one", WARNING, "vllm:num_requests_running / on (instance) vllm_observe_max_num_seqs > 0.9", "engine"),
    ("many-to-one", WARNING, "vllm:num_requests_waiting_by_reason > on (instance, engine) vllm:num_requests_running", "group_left"),
    ("part-by-itself", ERROR, f'{_5XX} / {_HTTP} > 0.05', 'what has status="5xx" meets itself'),
    ("part-by-itself", ERROR, f'100 * {_5XX} / ({_HTTP} > 0) > 5', "aggregate status away"),
    ("part-by-itself", ERROR, f'sum by (instance, status) ({_5XX}) / sum by (instance, status) ({_HTTP}) > 0.05', "status"),
    ("part-by-itself", ERROR, f'sum without (handler) ({_5XX}) / sum without (handler) ({_HTTP}) > 0.05', "status"),
    ("part-by-itself", ERROR, f'{_5XX} / on (instance, status, handler, method) {_HTTP} > 0.05', "status"),
    ("part-by-itself", ERROR, f'{_5XX} > 0.05 * {_HTTP}', "status"),
    ("part-by-itself", ERROR, 'increase(vllm:request_success_total{finished_reason="error"}[5m]) / increase(vllm:request_success_total[5m]) > 0.05', "finished_reason"),
    ("part-by-itself", ERROR, 'rate(my_answers_total{code=~"5.."}[5m]) / rate(my_answers_total[5m]) > 0.05', "code"),
    ("sum-without-count", WARNING, "rate(vllm:request_queue_time_seconds_sum[5m]) > 5", "request_queue_time_seconds_count for a mean"),
    ("sum-without-count", WARNING, f"sum by (instance) (increase({_TTFT}_sum[5m])) > 5", "_count for a mean"),
    ("clamped-divisor", WARNING, f"sum({_5XX}) / clamp_min(sum({_HTTP}), 1) > 0.05", "taken for 1 a second"),
    ("clamped-divisor", WARNING, f"{_HITS} / clamp(sum(rate(vllm:prefix_cache_queries_total[5m])), 0.5, 1e9) < 0.3", "taken for 0.5"),
    ("idle-or-stuck", WARNING, "sum(rate(vllm:generation_tokens_total[5m])) == 0", "num_requests_running > 0"),
    ("idle-or-stuck", WARNING, "increase(vllm:prompt_tokens_total[10m]) < 10", "idle server"),
    ("idle-or-stuck", WARNING, f"0 >= rate({_TTFT}_count[5m])", "idle server"),
    ("idle-or-stuck", INFO, "sum(rate(vllm:request_success_total[5m])) == 0", "idle server"),
    ("every-state", ERROR, "vllm:engine_sleep_state == 0", "say which"),
    ("every-state", ERROR, "vllm:engine_sleep_state > 0", "say which"),
    ("every-state", ERROR, "max by (instance) (vllm:engine_sleep_state) == 1", "say which"),
    ("every-state", ERROR, 'vllm:engine_sleep_state{sleep_state!="awake"} == 0', "always holds"),
    ("every-state", ERROR, "vllm:num_requests_running > 0 unless on (instance) vllm:engine_sleep_state == 1", "say which"),
    ("every-state", ERROR, "vllm_observe_binding_limit != 0", "a series for each limit"),
    ("every-state", ERROR, "up == 0.5", "up is 0 or 1"),
    ("fixed-outcome", ERROR, 'vllm:engine_sleep_state{sleep_state="awake"} == 2', "from 0 to 1"),
    ("fixed-outcome", ERROR, "up == 2", "from 0 to 1"),
    ("fixed-outcome", ERROR, "vllm:num_requests_running == NaN", "`x != x` asks for"),
    ("fixed-outcome", ERROR, "vllm:num_requests_running > 0 / 0", "nothing equals NaN"),
    ("fixed-outcome", ERROR, "vllm_observe_scrape_success > 1", "from 0 to 1"),
    ("fixed-outcome", ERROR, "vllm:cache_config_info == 0", "is always 1"),
    ("fires-at-one", INFO, "increase(vllm:num_preemptions_total[5m]) > 0", "rate that hurts"),
    ("fires-at-one", INFO, 'sum(rate(http_requests_total{status="4xx"}[5m])) > 0', "single one"),
    ("raw-counter", WARNING, "vllm:num_preemptions_total > 100", "rate()"),
    ("raw-counter", WARNING, f"histogram_quantile(0.9, sum by (le) ({_TTFT}_bucket)) > 2", "_bucket is a counter"),
    ("raw-counter", WARNING, "sum(vllm:prefix_cache_hits_total) / sum(vllm:prefix_cache_queries_total) < 0.1", "rate()"),
    ("raw-counter", WARNING, "my_errors_total > 5", "rate()"),
    ("raw-counter", WARNING, "my_errors_total", "rate()"),
    ("rate-of-gauge", ERROR, "rate(vllm:num_requests_running[5m]) > 1", "delta()"),
    ("rate-of-gauge", ERROR, "increase(vllm:kv_cache_usage_perc[5m]) > 0.1", "delta()"),
    ("short-window", WARNING, "rate(vllm:num_preemptions_total[45s]) > 1", "60s or more"),
    ("short-window", ERROR, "rate(vllm:num_preemptions_total[20s]) > 1", "never holds two"),
    ("ratio-as-percent", ERROR, "vllm:num_requests_running / vllm_observe_max_num_seqs > 95", "write > 0.95"),
    (
        "ratio-as-percent",
        ERROR,
        "sum by (model_name) (vllm:num_requests_running) / sum by (model_name) (vllm_observe_max_num_seqs) > 95",
        "write > 0.95",
    ),
    (
        "ratio-as-percent",
        WARNING,
        "vllm:num_requests_running / on (instance, engine) vllm_observe_max_num_seqs * 100 > 0.9",
        "write > 90",
    ),
    ("short-window", ERROR, "changes(vllm:generation_tokens_total[10s]) == 0", "never holds two"),
    ("short-window", WARNING, "predict_linear(vllm:kv_cache_usage_perc[45s], 600) > 1", "60s or more"),
    ("quantile-buckets", ERROR, f"histogram_quantile(0.9, sum by (model_name) (rate({_TTFT}_bucket[5m]))) > 2", "lost their le"),
    ("quantile-buckets", ERROR, f"histogram_quantile(0.9, sum without (le) (rate({_TTFT}_bucket[5m]))) > 2", "lost their le"),
    ("quantile-buckets", ERROR, f"histogram_quantile(0.9, rate({_TTFT}_sum[5m])) > 2", "no buckets"),
    ("quantile-buckets", ERROR, f"histogram_quantile(95, rate({_TTFT}_bucket[5m])) > 2", "write 0.95"),
    ("mean-of-quantiles", WARNING, f"avg(histogram_quantile(0.9, rate({_TTFT}_bucket[5m]))) > 2", "quantile of nothing"),
    ("mean-of-quantiles", WARNING, "sum(vllm:kv_cache_usage_perc) > 0.9", "take max"),
    ("mean-of-quantiles", INFO, "avg(vllm:kv_cache_usage_perc) > 0.9", "take max"),
    ("unguarded-ratio", INFO, f"{_HITS} / {_QUERIES} < 0.3", "NaN"),
    ("count-of-nothing", WARNING, "count(up == 1) < 40", "silent when none is left"),
    ("count-of-nothing", ERROR, "count(up == 1) == 0", "never true"),
    ("count-of-nothing", ERROR, "count(vllm:num_requests_running) < 1", "never true"),
    ("global-absent", WARNING, "absent(vllm:num_requests_running)", "one of many is missed"),
    ("global-absent", WARNING, 'absent(up{job="vllm"})', "one of many is missed"),
    ("no-condition", WARNING, "vllm:num_requests_waiting", "whatever their values"),
    ("no-condition", WARNING, "vllm:num_requests_waiting > bool 5", "whatever their values"),
    ("frozen-gauge", INFO, "vllm:kv_cache_usage_perc > 0.9", "hung engine"),
    ("fixed-queue-depth", INFO, "sum(vllm:num_requests_waiting) > 50", "max_num_seqs"),
]  # fmt: skip

#: Check, and an expression about which it has nothing to say.
SOUND = [
    ("unknown-metric", "rate(vllm:num_preemptions_total[5m]) > 1"),
    ("unknown-metric", "ray_vllm:num_requests_running > 1"),
    ("unknown-metric", f"{_P95} > 1"),
    ("unknown-metric", "up == 0"),
    ("unknown-metric", '{__name__=~"vllm:.*"} > 1'),
    ("unknown-metric", '{__name__="vllm:num_requests_running"} > 1'),
    ("unknown-metric", "rate(vllm:iteration_tokens_total_sum[5m]) > 1"),
    ("unknown-label", 'vllm:num_requests_waiting_by_reason{reason="capacity"} > 1'),
    ("unknown-label", 'vllm:num_requests_waiting{pod=~"a.*",namespace="b",team="c"} > 1'),
    ("unknown-label", 'vllm:num_requests_waiting{reason=""} > 1'),
    ("unknown-label", "sum by (pod, model_name) (vllm:num_requests_waiting) > 1"),
    ("unknown-label", 'vllm:cache_config_info{cache_dtype="auto"} > 1'),
    ("unknown-value", 'rate(vllm_observe_requests_total{outcome=~"abort|error"}[5m]) > 1'),
    ("unknown-value", 'rate(vllm_observe_requests_total{outcome!="ok",profile="coder"}[5m]) > 1'),
    ("le-value", 'rate(vllm_observe_request_ttft_seconds_bucket{le="2.5"}[5m]) > 1'),
    ("le-value", 'rate(vllm_observe_request_ttft_seconds_bucket{le=~"2([.]0)?"}[5m]) > 1'),
    ("unknown-value", 'rate(vllm:request_success_total{finished_reason=~"abort|error"}[5m]) > 1'),
    ("unknown-value", 'rate(vllm:request_success_total{finished_reason!~"stop|length|repetition"}[5m]) > 1'),
    ("unknown-value", 'vllm:engine_sleep_state{sleep_state="awake"} == 0'),
    ("unknown-value", 'rate(http_requests_total{status=~"5.."}[5m]) > 1'),
    ("unknown-value", 'rate(http_requests_total{status="4xx",handler="/v1/completions"}[5m]) > 1'),
    ("unknown-value", 'rate(http_requests_total{handler="/my/own/path"}[5m]) > 1'),
    ("unknown-metric", "ray_vllm_num_requests_waiting > 1"),
    ("unknown-metric", "vllm_observe_max_num_seqs > 1"),
    ("le-value", f'rate({_TTFT}_bucket{{le="2.5"}}[5m]) > 1'),
    ("le-value", 'rate(vllm:request_prompt_tokens_bucket{le="123.0"}[5m]) > 1'),
    ("le-value", f'rate({_TTFT}_bucket{{le="+Inf"}}[5m]) > 1'),
    ("contradiction", 'vllm:num_requests_running{pod=~"a|b",pod!="a"} > 1'),
    ("contradiction", 'vllm:num_requests_running{pod=~"a.*",pod!~".*b"} > 1'),
    ("fixed-outcome", "up == 0 and on (instance) up == 1"),
    ("fixed-outcome", f"{_HITS} - {_QUERIES} > 0"),
    ("fixed-outcome", f"clamp_min({_HITS}, 1) <= 1"),
    ("ratio-as-percent", "vllm:kv_cache_usage_perc > 0.9"),
    ("ratio-as-percent", "vllm:kv_cache_usage_perc >= 1"),
    ("ratio-as-percent", "100 * vllm:kv_cache_usage_perc > 90"),
    ("ratio-as-percent", "sum(vllm:kv_cache_usage_perc) > 3"),
    ("ratio-as-percent", "vllm:num_requests_waiting / vllm:num_requests_running > 2"),
    ("ratio-as-percent", "rate(vllm:generation_tokens_total[5m]) / rate(vllm:generation_tokens_total[5m] offset 1d) > 3"),
    ("ratio-as-percent", "max(rate(vllm:generation_tokens_total[5m])) / avg(rate(vllm:generation_tokens_total[5m])) > 3"),
    ("ratio-as-percent", "sum(rate(vllm:prompt_tokens_total[5m])) / sum(rate(vllm:generation_tokens_total[5m])) > 30"),
    ("ratio-as-percent", 'sum(rate(vllm:request_success_total{finished_reason="length"}[5m])) / sum(rate(vllm:request_success_total{finished_reason="stop"}[5m])) > 5'),
    ("seconds-as-milliseconds", f"{_P95} > 30"),
    ("seconds-as-milliseconds", f"1000 * {_P95} > 2500"),
    ("seconds-as-milliseconds", "vllm:num_requests_running > 2500"),
    ("seconds-as-milliseconds", f"sum(rate({_TTFT}_count[5m])) > 2500"),
    ("one-sided-label", f'sum by (pod) (rate({_TTFT}_bucket{{le="1.0"}}[5m])) / sum by (pod) (rate({_TTFT}_count[5m])) < 0.9'),
    ("one-sided-label", f'rate({_TTFT}_bucket{{le="1.0"}}[5m]) / ignoring (le) rate({_TTFT}_count[5m]) < 0.9'),
    ("one-sided-label", "sum(vllm:num_requests_running) / on () vector(8) > 0.9"),
    ("one-sided-label", "vllm:num_requests_running > 8 or vllm_observe_scrape_success == 0"),
    ("one-sided-label", "up == 0 and on (instance) vllm:num_requests_running > 0"),
    ("one-sided-label", f'{_5XX} / ignoring (status) rate(http_requests_total{{status="2xx"}}[5m]) > 0.05'),
    ("one-sided-label", f'sum by (instance) ({_5XX}) / sum by (instance) (rate(http_requests_total{{status="2xx"}}[5m])) > 0.05'),
    ("one-sided-label", 'up{job="a"} == 0 and on (instance) up{job="b"} == 1'),
    ("one-sided-label", 'up{job="a"} == 0 or up{job="b"} == 0'),
    ("one-sided-label", 'up{job="a"} == 0 and label_replace(up{job="b"}, "job", "a", "job", "b") == 0'),
    ("one-sided-label", "up == 0 or vllm_observe_scrape_success == 0 and up == 1"),
    ("one-sided-label", "vllm:num_requests_running unless on (instance) sum by (instance) (up)"),
    ("many-to-one", "vllm:num_requests_running / on (instance, engine, model_name) vllm_observe_max_num_seqs > 0.9"),
    ("many-to-one", "vllm:num_requests_waiting_by_reason > on (instance, engine) group_left () vllm:num_requests_running"),
    ("many-to-one", "max by (instance) (vllm:num_requests_running) / on (instance) sum by (instance) (vllm_observe_max_num_seqs) > 0.9"),
    ("many-to-one", 'vllm:num_requests_waiting_by_reason{reason="capacity"} > on (instance, engine) vllm:num_requests_running'),
    ("part-by-itself", f'sum by (instance) ({_5XX}) / sum by (instance) ({_HTTP}) > 0.05'),
    ("part-by-itself", f'sum without (status) ({_5XX}) / sum without (status) ({_HTTP}) > 0.05'),
    ("part-by-itself", f'{_5XX} / on (instance, handler, method) group_left () sum by (instance, handler, method) ({_HTTP}) > 0.05'),
    ("part-by-itself", f'sum by (status) ({_5XX}) / ignoring (status) sum by (instance) ({_HTTP}) > 0.05'),
    ("part-by-itself", f'{_5XX} / {_5XX} offset 1d > 2'),
    ("part-by-itself", "rate(http_requests_total[5m]) / rate(http_requests_total[5m] offset 1d) > 2"),
    ("part-by-itself", f'topk by (status) (1, {_5XX}) / topk by (status) (1, {_HTTP}) > 0.05'),
    ("part-by-itself", f'rate({_TTFT}_bucket{{le="1.0"}}[5m]) / ignoring (le) rate({_TTFT}_count[5m]) < 0.9'),
    ("sum-without-count", f"rate({_TTFT}_sum[5m]) / rate({_TTFT}_count[5m]) > 5"),
    ("sum-without-count", "rate(vllm:iteration_tokens_total_sum[5m]) > 5"),
    ("sum-without-count", "rate(vllm:request_queue_time_seconds_sum[5m]) > 0"),
    ("sum-without-count", "rate(vllm:request_queue_time_seconds_sum[5m]) > 3 * rate(vllm:request_queue_time_seconds_sum[5m] offset 1d)"),
    ("sum-without-count", "rate(vllm:request_queue_time_seconds_sum[5m]) / on (instance, engine, model_name, job) vllm:num_requests_running > 5"),
    ("clamped-divisor", f"sum({_5XX}) / clamp_min(sum({_HTTP}), 0.001) > 0.05"),
    ("clamped-divisor", "sum(increase(http_requests_total[5m])) / clamp_min(sum(increase(http_requests_total[5m] offset 1d)), 1) > 2"),
    ("clamped-divisor", f"sum({_5XX}) / (sum({_HTTP}) > 1) > 0.05"),
    ("clamped-divisor", "vllm:num_requests_waiting / clamp_min(vllm:num_requests_running, 1) > 2"),
    ("idle-or-stuck", "sum by (instance) (rate(vllm:generation_tokens_total[5m])) == 0 and on (instance) vllm:num_requests_running > 0"),
    ("idle-or-stuck", "sum(rate(vllm:generation_tokens_total[5m])) > 0"),
    ("idle-or-stuck", f"{_HITS} / ({_QUERIES} > 0) < 0.3"),
    ("idle-or-stuck", "rate(vllm:generation_tokens_total[5m]) < 0.3 * rate(vllm:generation_tokens_total[5m] offset 1h)"),
    ("idle-or-stuck", "sum(vllm:num_requests_running) == 0"),
    ("every-state", 'vllm:engine_sleep_state{sleep_state="awake"} == 0'),
    ("every-state", 'vllm:engine_sleep_state{sleep_state!="awake"} == 1'),
    ("every-state", 'max by (instance) (vllm:engine_sleep_state{sleep_state=~"weights_offloaded|discard_all"}) == 1'),
    ("every-state", "count by (sleep_state) (vllm:engine_sleep_state == 1) > 2"),
    ("every-state", "vllm_observe_engine_stalled == 1"),
    ("every-state", "up == 1"),
    ("fixed-outcome", "vllm_observe_scrape_success < 1"),
    ("fixed-outcome", f"{_P95} != {_P95}"),
    ("fixed-outcome", f"({_P95} or up * NaN) > 2"),
    ("fixed-outcome", "avg_over_time(up[10m]) == 0.5"),
    ("fires-at-one", "rate(vllm:num_preemptions_total[5m]) > 0.5"),
    ("fires-at-one", 'increase(vllm:request_success_total{finished_reason="error"}[5m]) > 0'),
    ("fires-at-one", 'increase(vllm:request_success_total{finished_reason="abort"}[5m]) > 0'),
    ("fires-at-one", "increase(vllm:num_preemptions_total[5m]) > 0 and vllm:kv_cache_usage_perc > 0.95"),
    ("raw-counter", "increase(vllm:num_preemptions_total[5m]) > 100"),
    ("raw-counter", "vllm:corrupted_requests_total > 0 unless vllm:corrupted_requests_total offset 10m"),
    ("raw-counter", "up == 0 unless on (instance) vllm:corrupted_requests_total"),
    ("raw-counter", "absent(vllm:num_preemptions_total)"),
    ("rate-of-gauge", "delta(vllm:num_requests_running[5m]) > 1"),
    ("rate-of-gauge", "deriv(vllm:kv_cache_usage_perc[5m]) > 0.1"),
    ("short-window", "rate(vllm:num_preemptions_total[1m]) > 1"),
    ("ratio-as-percent", "vllm:num_requests_running / vllm_observe_max_num_seqs > 0.95"),
    ("ratio-as-percent", "max(vllm:num_requests_running) / min(vllm_observe_max_num_seqs) > 2"),
    ("short-window", "max_over_time(vllm:num_requests_running[15s]) > 1"),
    ("quantile-buckets", f"{_P95} > 2"),
    ("quantile-buckets", f"histogram_quantile(0.9, rate({_TTFT}_bucket[5m])) > 2"),
    ("quantile-buckets", f"histogram_quantile(0.9, sum without (pod) (rate({_TTFT}_bucket[5m]))) > 2"),
    ("mean-of-quantiles", f"max({_P95}) > 2"),
    ("mean-of-quantiles", "max(vllm:kv_cache_usage_perc) > 0.9"),
    ("mean-of-quantiles", "max(avg_over_time(vllm:kv_cache_usage_perc[5m])) > 0.9"),
    ("unguarded-ratio", f"{_HITS} / ({_QUERIES} > 0) < 0.3"),
    ("unguarded-ratio", f"{_HITS} / clamp_min({_QUERIES}, 1e-9) < 0.3"),
    ("unguarded-ratio", f"{_HITS} / {_QUERIES} > 0.3"),
    ("unguarded-ratio", "vllm:num_requests_running / vllm_observe_max_num_seqs < 0.1"),
    ("count-of-nothing", "sum(up == bool 1) < 40"),
    ("count-of-nothing", "(count(up == 1) or vector(0)) < 40"),
    ("count-of-nothing", "count(up == 0) > 2"),
    ("global-absent", 'absent(up{instance="10.0.0.1:8000"})'),
    ("global-absent", "up offset 10m unless up"),
    ("no-condition", "vllm:num_requests_waiting > 5"),
    ("no-condition", "absent(up)"),
    ("no-condition", "up offset 10m unless up"),
    ("frozen-gauge", "vllm:kv_cache_usage_perc > 0.9 and on (instance) up == 1"),
    ("frozen-gauge", "vllm:kv_cache_usage_perc > 0.9 and rate(vllm:generation_tokens_total[5m]) > 0"),
    ("fixed-queue-depth", "vllm:num_requests_waiting > 0"),
    ("fixed-queue-depth", "vllm:num_requests_waiting / vllm_observe_max_num_seqs > 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "level", "expr", "word"), FAULTS, ids=[f"{row[0]}: {row[2]}" for row in FAULTS]
)
def test_a_fault_is_found(check, level, expr, word):
    told = [problem for problem in found(expr) if problem.check == check]
    assert level in {problem.level for problem in told}
    assert any(word in problem.message for problem in told), told


@pytest.mark.parametrize(("check", "expr"), SOUND, ids=[f"{row[0]}: {row[1]}" for row in SOUND])
def test_what_is_sound_is_let_be(check, expr):
    assert [problem for problem in found(expr) if problem.check == check] == []


def test_every_check_has_rules_with_its_fault_and_rules_without():
    beside = {"missing-for", "missing-annotation", "template-label"}  # about more than the expression
    wanted = {check.id for check in CHECKS} - beside
    assert {row[0] for row in FAULTS} == wanted
    assert {row[0] for row in SOUND} == wanted


def told(check, *rules, **options):
    return [
        (problem.level, problem.message) for problem in found(*rules, **options) if problem.check == check
    ]


# --- Against a page -------------------------------------------------------------------------------


def test_a_metric_that_the_page_lacks_is_an_error():
    (problem,) = told(
        "unknown-metric",
        "vllm:kv_cache_usage_perc > 0.9",
        page=PLAIN.parents[1] / "vllm-0.9.2-v0" / "saturated.prom",
    )
    assert problem[0] is ERROR
    assert "vllm:gpu_cache_usage_perc" in problem[1]


def test_a_metric_behind_an_option_is_named_with_the_option():
    (problem,) = told("unknown-metric", "rate(vllm:spec_decode_num_drafts_total[5m]) > 1", page=PLAIN)
    assert problem == (INFO, "vllm:spec_decode_num_drafts_total exists only with `--speculative-config`")


def test_a_metric_of_the_sidecar_is_not_on_vllms_own_page():
    assert told("unknown-metric", "vllm_observe_engine_stalled == 1", page=SIDECAR) == []
    assert told("unknown-metric", "vllm_observe_engine_stalled == 1", page=PLAIN)[0][0] is ERROR


def test_a_foreign_metric_is_a_warning_where_pages_were_given():
    assert told("unknown-metric", "gateway_requests_pending > 9", page=PLAIN)[0][0] is WARNING


def test_the_values_of_a_page_are_known():
    expr = 'rate(vllm:request_success_total{finished_reason="stop_sequence"}[5m]) > 1'
    assert told("unknown-value", expr, page=PLAIN)[0][0] is ERROR
    assert told("unknown-value", expr.replace("stop_sequence", "stop"), page=PLAIN) == []
    # Which models and paths there are is the server's own business.
    assert (
        told("unknown-value", 'vllm:num_requests_running{model_name="llama"} > 1', page=PLAIN)[0][0] is INFO
    )
    assert (
        told("unknown-value", 'vllm:num_requests_running{model_name="tiny1"} > 1', page=PLAIN)[0][0]
        is WARNING
    )


def test_the_buckets_of_a_page_are_known():
    bucket = 'rate(vllm:time_to_first_token_seconds_bucket{{le="{}"}}[5m]) > 1'
    assert told("le-value", bucket.format("2.5"), page=PLAIN) == []
    assert told("le-value", bucket.format("2.0"), page=PLAIN)[0] == (
        ERROR, 'le="2.0" is no bucket of vllm:time_to_first_token_seconds_bucket: the nearest are 1.0 and 2.5'
    )  # fmt: skip
    assert (
        "largest bucket ends at 2560" in told("seconds-as-milliseconds", f"{_P95} > 2560", page=PLAIN)[0][1]
    )


def test_a_bound_that_only_one_prometheus_spells_so_is_a_warning(tmp_path):
    page = tmp_path / "go.prom"
    page.write_text(
        '# TYPE wait_seconds histogram\nwait_seconds_bucket{le="1"} 1\nwait_seconds_bucket{le="+Inf"} 1\n'
    )
    whole, both = (f"rate(wait_seconds_bucket{{{le}}}[5m]) > 1" for le in ('le="1"', 'le=~"1([.]0)?"'))
    assert "Prometheus 2 alone" in told("le-value", whole, page=page)[0][1]
    assert "Prometheus 3 alone" in told("le-value", whole.replace('"1"', '"1.0"'), page=page)[0][1]
    assert told("le-value", both, page=page) == []


def test_a_label_that_no_release_has_is_told_from_the_page():
    assert told("unknown-label", 'vllm:num_requests_running{engine="0"} > 1', page=PLAIN) == []
    v0 = PLAIN.parents[1] / "vllm-0.9.2-v0" / "saturated.prom"
    assert told("unknown-label", 'vllm:num_requests_running{source="x"} > 1', page=v0) == []


def test_labels_of_another_exporter_are_no_labels_of_vllm(tmp_path):
    other = tmp_path / "other.prom"
    other.write_text('# TYPE gpu_heat gauge\ngpu_heat{pod="a",team="b"} 1\n')
    expr = 'max by (pod) (vllm:num_requests_running{team="b"}) > 1 and on (pod) max by (pod) (gpu_heat) > 1'
    problems = lint([an_alert(expr)], vocabulary_of(PLAIN, other))
    assert [problem for problem in problems if problem.level is not INFO] == []


@pytest.mark.parametrize("page", [PLAIN, SIDECAR])
def test_a_status_that_vllm_never_exposes_is_an_error_where_a_page_shows_that_it_is_vllms(page):
    asked = 'rate(http_requests_total{{status="{}"}}[5m]) > 1'
    assert told("unknown-value", asked.format("500"), page=page)[0][0] is ERROR
    assert told("unknown-value", asked.format("5xx"), page=page) == [], "only none was counted yet"


def test_a_path_that_nobody_has_asked_for_yet_is_right():
    asked = 'rate(http_requests_total{{handler="{}"}}[5m]) > 1'
    assert told("unknown-value", asked.format("/v1/completions"), page=PLAIN) == []
    assert told("unknown-value", asked.format("/v1/chat/completion"), page=PLAIN)[0][0] is WARNING


def test_another_programs_metric_of_the_same_name_keeps_its_own_values(tmp_path):
    other = tmp_path / "other.prom"
    other.write_text('# TYPE http_requests_total counter\nhttp_requests_total{status="200"} 1\n')
    for pages in ([other], [other, PLAIN]):
        problems = lint([an_alert('rate(http_requests_total{status="500"}[5m]) > 1')], vocabulary_of(*pages))
        assert [problem.level for problem in problems if problem.check == "unknown-value"] == [INFO]


def test_a_page_that_rewrites_colons_is_believed(tmp_path):
    page = tmp_path / "rewritten.prom"
    page.write_text("# TYPE vllm_num_requests_waiting gauge\nvllm_num_requests_waiting 1\n")
    assert told("unknown-metric", "vllm_num_requests_waiting > 0", page=page) == []
    assert told("unknown-metric", "vllm:num_requests_waiting > 0", page=page)[0][0] is ERROR


def test_a_value_that_a_newer_vllm_has_is_believed(tmp_path):
    page = tmp_path / "newer.prom"
    page.write_text(
        '# TYPE vllm:request_success_total counter\nvllm:request_success_total{finished_reason="tired"} 1\n'
    )
    assert (
        told("unknown-value", 'rate(vllm:request_success_total{finished_reason="tired"}[5m]) > 1', page=page)
        == []
    )


# --- Releases -------------------------------------------------------------------------------------


def test_names_are_those_of_the_release_that_is_asked_for():
    old, new = "vllm:gpu_cache_usage_perc > 0.9", "vllm:kv_cache_usage_perc > 0.9"
    assert told("unknown-metric", old, version="0.9.0") == []
    assert (
        told("unknown-metric", old, version="0.10.0") == told("unknown-metric", new, version="0.10.0") == []
    )
    assert told("unknown-metric", new, version="0.9.0")[0][0] is ERROR


def test_buckets_are_known_of_the_releases_that_have_them_all():
    """From 0.8.5 on they are the same; before, they ended sooner."""
    asked = f'rate({_TTFT}_bucket{{le="2.0"}}[5m]) > 1'
    assert told("le-value", asked, version="0.8.5")[0][0] is ERROR
    assert told("le-value", asked, version="0.7.3") == []


@pytest.mark.parametrize(
    "page", sorted((PLAIN.parents[1]).glob("*/*.prom")), ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_what_is_known_without_a_page_is_on_the_pages_of_real_servers(page):
    """Bounds, and the values of labels."""
    known = of_release("0.9.0" if "-v0" in page.parent.name else NEWEST).metrics
    compared = 0
    for name in vocabulary_of(page).metrics.keys() & known.keys():
        for label, values in known[name].values.items():
            exposed = page_values(page, name, label)
            compared += bool(exposed)
            if label == "le":
                assert exposed in (set(), set(values)), name
            elif label in known[name].closed:
                assert exposed <= values, (name, label)
    assert compared > 5


def page_values(page, name, label):
    lines = [line for line in page.read_text().splitlines() if line.startswith(f"{name}{{")]
    return {match[1] for line in lines for match in re.finditer(f'[{{,]{label}="([^"]*)"', line)}


# --- More than the expression ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expr", "hold", "level"),
    [
        ("vllm:kv_cache_usage_perc > 0.9", None, WARNING),
        ("vllm:kv_cache_usage_perc > 0.9", "0s", WARNING),
        ("vllm:kv_cache_usage_perc > 0.9", "5m", None),
        ("avg_over_time(vllm:kv_cache_usage_perc[5m]) > 0.9", None, INFO),
        ("avg_over_time(vllm:kv_cache_usage_perc[1h]) > 0.9", None, None),
        ("team:kv:max1h > 0.9", None, None),
    ],
)
def test_an_alert_without_a_for_needs_a_window(expr, hold, level):
    recorded = a_recording("team:kv:max1h", "max_over_time(vllm:kv_cache_usage_perc[1h])")
    levels = [level for level, _ in told("missing-for", an_alert(expr, hold=hold), recorded)]
    assert levels == ([level] if level else [])


def test_an_alert_without_words_or_runbook_is_told_so():
    assert told("missing-annotation", an_alert("up == 0", annotations={"message": "It is down."})) == [
        (INFO, "whoever is called finds no runbook_url in it")
    ]
    assert len(told("missing-annotation", an_alert("up == 0", annotations={}))) == 1
    assert told("missing-annotation", "up == 0") == []
    assert told("missing-annotation", a_recording("a:up", "sum(up)")) == []


@pytest.mark.parametrize(
    ("expr", "text", "missing"),
    [
        ("sum by (pod) (up) == 0", "{{ $labels.pod }} is down", False),
        ("sum by (job) (up) == 0", "{{ $labels.pod }} is down", True),
        ("sum by (job) (up) == 0", '{{ index $labels "pod" }} is down', True),
        ("sum by (job) (up) == 0", "{{ with $labels.pod }}{{ . }} is down{{ end }}", False),
        ("sum without (pod) (up) == 0", "{{ $labels.pod }} is down", True),
        ("up == 0", "{{ $labels.pod }} is down", False),
        ('absent(up{job="a"})', "{{ $labels.instance }} is gone", True),
        ('absent(up{job="a"})', "{{ $labels.job }} is gone", False),
        ("up / on (job) sum by (job) (up) > 1", "{{ $labels.instance }}", True),
        ("up / on (job) group_left () sum by (job) (up) > 1", "{{ $labels.instance }}", False),
        ('label_replace(sum(up), "pod", "$1", "job", "(.*)") == 0', "{{ $labels.pod }}", False),
    ],
)
def test_texts_show_only_labels_that_are_there(expr, text, missing):
    problems = told("template-label", an_alert(expr, annotations={"summary": text, "runbook_url": "x"}))
    assert bool(problems) is missing


def test_a_label_of_a_recording_rule_is_known():
    recorded = a_recording("a:b:c", "sum by (pod) (up)")
    texts = {"annotations": {"summary": "{{ $labels.pod }} {{ $labels.job }}", "runbook_url": "x"}}
    (problem,) = told("template-label", an_alert("a:b:c == 0", **texts), recorded)
    assert "shows job," in problem[1]


def test_recording_rules_are_understood_wherever_they_stand_and_whatever_they_build_on():
    rules = (
        an_alert("b:usage > 90"),
        a_recording("b:usage", "max(a:usage)"),
        a_recording("a:usage", "max by (pod) (vllm:kv_cache_usage_perc)"),
    )
    assert told("ratio-as-percent", *rules)[0][0] is ERROR


def test_rules_that_record_each_other_end():
    assert told("unknown-metric", a_recording("a:a", "b:b + a:a"), a_recording("b:b", "a:a + b:b")) == []


@pytest.mark.parametrize(
    "expr",
    [
        "",
        "up ==",
        "rate(up)",
        "(" * 50_000,
        "-" * 50_000 + "up",
        "up" + "+up" * 20_000,
        "up" + " + up" * 700,
        "é",
    ],
)
def test_what_is_no_promql_is_an_error_of_its_rule_alone(expr):
    problems = found(expr, "up == 0")
    assert [(problem.check, problem.level) for problem in problems] == [("syntax", ERROR)]
    assert "\n" not in problems[0].message


def test_a_costly_pattern_takes_no_time():
    expr = 'vllm:num_requests_running{model_name=~"(t+)+i+n+y+!"} > 1'
    assert told("unknown-value", expr, page=PLAIN) == []


def test_a_check_can_be_turned_off_for_a_rule_and_for_all():
    assert told("missing-for", an_alert("up == 0", hold=None, disabled=frozenset({"missing-for"}))) == []
    assert told("missing-for", an_alert("up == 0", hold=None), disabled=["missing-for"]) == []
    assert told("syntax", "up ==", disabled=["syntax"]) == []
