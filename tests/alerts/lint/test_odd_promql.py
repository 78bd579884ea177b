"""PromQL that few people write and that is right: nothing crashes, and nothing is called an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.linting import PLAIN, an_alert, vocabulary_of
from support.rules import run
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.tables import of_release

RUNNING, KV, TOKENS = "vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:generation_tokens_total"
TTFT, DONE = "vllm:time_to_first_token_seconds", "vllm:request_success_total"

ODD = [
    # subqueries, offsets, @
    f"max_over_time(rate({TOKENS}[5m])[1h:]) > 5",
    f"max_over_time(rate({TOKENS}[5m])[1h:1m] offset 1d) > 5",
    f"min_over_time((sum by (job) ({RUNNING}) > bool 4)[10m:30s]) == 1",
    f"rate({TOKENS}[5m] offset -5m) > 5",
    f"{RUNNING} @ 1700000000 > 5",
    f"{RUNNING} @ start() offset 5m < {RUNNING} @ end()",
    f"rate({TOKENS}[5m] @ end()) > 1",
    f"quantile_over_time(0.9, {KV}[1h]) > 0.9",
    f"avg_over_time(({KV} > 0.5)[1h:5m]) > 0.9",
    f"predict_linear({KV}[1h], 3600) > 1",
    f"deriv({KV}[10m]) > 0.001",
    f"holt_winters({KV}[10m], 0.5, 0.5) > 0.9",
    f"rate({TOKENS}[1h30m]) > 5",
    # matching
    f'{RUNNING} * on (job, instance) group_left (node) kube_pod_info{{node!=""}} > 4',
    f"sum by (job) ({RUNNING}) / ignoring (engine) group_right () sum by (job, engine) ({RUNNING}) > 2",
    f"{RUNNING} - on (instance, engine, model_name, job) {RUNNING} offset 5m > 3",
    f"{RUNNING} > on () group_left () scalar(vector(4)) * on () vector(1)",
    f"{RUNNING} and on () (hour() > 8 < 18)",
    f"{RUNNING} > 4 unless on () ALERTS{{alertname='Maintenance'}}",
    f"({RUNNING} or vector(0)) > 5",
    f"{RUNNING} == bool 8 > 0",
    f"-{RUNNING} < -7",
    f"{RUNNING} % 2 ^ 2 > 1",
    f"{RUNNING} atan2 {KV} > 1",
    # labels made on the way
    f'sum by (pool) (label_replace({RUNNING}, "pool", "$1", "instance", "(.*):.*")) > 4',
    f'label_join({RUNNING}, "where", "/", "job", "instance") > 4',
    f'count by (v) (count_values("v", {RUNNING})) > 4',
    f'sum by (le) (label_replace(rate({TTFT}_bucket[5m]), "le", "$1", "le", "(.*)[.]0")) > 1',
    # histograms, native ones too
    f"histogram_quantile(0.9, sum by (le, job) (rate({TTFT}_bucket[5m]))) > 2.5",
    f"histogram_quantile(0.9, sum without (engine) (rate({TTFT}_bucket[5m]))) > 2.5",
    "histogram_quantile(0.9, sum(rate(request_duration_seconds[5m]))) > 2.5",
    "histogram_fraction(0, 2.5, rate(request_duration_seconds[5m])) < 0.9",
    "histogram_count(rate(request_duration_seconds[5m])) > 1",
    f'sum(rate({TTFT}_bucket{{le="2.5"}}[5m])) / sum(rate({TTFT}_count[5m])) < 0.9',
    f'1 - (sum by (job) (rate({TTFT}_bucket{{le="2.5"}}[5m])) / on (job) sum by (job) (rate({TTFT}_count[5m]))) > 0.1',
    f'rate({TTFT}_bucket{{le="2.5"}}[5m]) / ignoring (le) rate({TTFT}_count[5m]) < 0.9',
    # selectors
    f'{{__name__="{RUNNING}"}} > 4',
    '{__name__=~"vllm:num_requests_(running|waiting)"} > 40',
    f'{DONE}{{finished_reason=~"stop|length",finished_reason!="length"}} offset 1m > 5',
    f'{RUNNING}{{model_name!="",engine=~".+"}} > 4',
    f'sum(rate({DONE}{{finished_reason!~"stop|length"}}[5m])) > 1',
    # time, absence, sorting
    f"time() - timestamp({RUNNING}) > 120",
    f'absent({RUNNING}{{job="vllm",instance="a:9809"}})',
    f'absent_over_time({RUNNING}{{job="vllm"}}[10m])',
    f"topk by (job) (1, {RUNNING}) > 4",
    f"bottomk(3, sort_desc({RUNNING})) > 4",
    f"quantile by (job) (0.5, {RUNNING}) > 4",
    f"stddev by (job) ({RUNNING}) > 4",
    f"group by (job) ({RUNNING})",
    f"changes({RUNNING}[10m]) == 0 and {RUNNING} > 0",
    f"resets({TOKENS}[1h]) > 2",
    f"clamp({KV}, 0, 1) > 0.9",
    f"sgn(delta({RUNNING}[10m])) == 1 and {RUNNING} > 0",
    f"round({RUNNING}, 5) > 5",
    f"{RUNNING} > Inf or {RUNNING} > 0x10",
    f"{TOKENS} > 1e9 and increase({TOKENS}[1d]) > 1e6",
    "vector(1) > 0",
    'days_in_month() == 31 and on () up == 0 # a comment "with quotes',
    f"sum(\n  # said between\n  rate({TOKENS}[5m])\n) > 5",
    "scalar(count(up)) > bool 3",
]


def test_promtool_takes_all_of_it(promtool, tmp_path):
    """What it does not take would prove nothing; ``lint`` only as far as it reads the expressions."""
    rules = [{"alert": f"A{number}", "expr": expr} for number, expr in enumerate(ODD)]
    file = tmp_path / "odd.yaml"
    file.write_text(json.dumps({"groups": [{"name": "odd", "rules": rules}]}))
    done = run(promtool, "check", "rules", "--lint=none", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", params=["a page", "a release"])
def vocabulary(request):
    return vocabulary_of(PLAIN) if request.param == "a page" else of_release()


@pytest.mark.parametrize("expr", ODD)
def test_what_is_odd_is_no_error(expr, vocabulary):
    said = lint([an_alert(expr)], vocabulary)
    assert [problem.message for problem in said if problem.level is Level.ERROR] == []


_NAMES = st.sampled_from([RUNNING, KV, TOKENS, f"{TTFT}_bucket", f"{TTFT}_sum", "up", "unheard_of", "a:b"])
_LABELS = st.sampled_from(["job", "engine", "le", "instance", "model_name", "no_such"])
_MATCHER = st.builds("{}{}{}".format, _LABELS, st.sampled_from(["=", "!=", "=~", "!~"]),
                     st.sampled_from(['"0"', '""', '"a|b"', '".+"', '"(a|b"', '"2.5"']))  # fmt: skip
_SELECTOR = st.builds(
    lambda name, matchers: f"{name}{{{','.join(matchers)}}}", _NAMES, st.lists(_MATCHER, max_size=3)
)
_RANGE = st.builds("{}[{}]{}".format, _SELECTOR, st.sampled_from(["1m", "5m", "1h:", "1h:30s", "1d"]),
                   st.sampled_from(["", " offset 5m", " offset -5m", " @ end()"]))  # fmt: skip
_OVER = st.sampled_from(["rate", "increase", "max_over_time", "absent_over_time", "last_over_time", "resets"])
_BY = st.builds(lambda word, labels: f"{word} ({', '.join(labels)})", st.sampled_from(["by", "without"]),
                st.lists(_LABELS, max_size=3))  # fmt: skip
_ON = st.builds(lambda word, labels: f"{word} ({', '.join(labels)})", st.sampled_from(["on", "ignoring"]),
                st.lists(_LABELS, max_size=3))  # fmt: skip


def _grown(inner):
    return st.one_of(
        st.builds(
            "{}{} ({})".format, st.sampled_from(["sum", "avg", "count", "min", "group"]), _BY.map(" {}".format), inner
        ),
        st.builds("{}({}, {})".format, st.sampled_from(["topk", "quantile"]), st.sampled_from(["1", "0.9"]), inner),
        st.builds("histogram_quantile({}, {})".format, st.sampled_from(["0.9", "95"]), inner),
        st.builds('label_replace({}, "{}", "$1", "job", "(.*)")'.format, inner, _LABELS),
        st.builds("max_over_time(({})[1h:])".format, inner),
        st.builds("({}) {} {} ({})".format, inner, st.sampled_from(["+", "/", "and", "or", "unless"]), _ON, inner),
        st.builds("({}) {} {}".format, inner, st.sampled_from([">", "<=", "== bool", "/", "*"]),
                  st.sampled_from(["0", "90", "2000", "NaN", "-Inf"])),
        st.builds("{}({})".format, st.sampled_from(["abs", "-", "absent", "clamp_min", "scalar", "vector"]), inner),
    )  # fmt: skip


_INSTANT = st.one_of(_SELECTOR, st.builds("{}({})".format, _OVER, _RANGE))


@settings(max_examples=400, deadline=None)
@given(st.recursive(_INSTANT, _grown, max_leaves=12), st.booleans())
def test_no_expression_breaks_the_linter(vocabularies, expr, alerts):
    """Right or wrong: what is no PromQL is told in one line, and all else is looked at to the end."""
    rule = an_alert(expr, alerts=alerts, name="A" if alerts else "a:b")
    for vocabulary in vocabularies:
        for problem in lint([rule], vocabulary):
            assert problem.message
            assert "\n" not in problem.message


@pytest.fixture(scope="module")
def vocabularies():
    return vocabulary_of(PLAIN), of_release()
