"""Which labels each function and operator of Prometheus leaves: said by hand, asked of Prometheus, known to us."""

from __future__ import annotations

import json
import re

import pytest

from support.linting import found
from support.rules import run
from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.functions import AGGREGATED, CALLED
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.parsing import parse
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.tables import of_release

X, BUCKET = "vllm:num_requests_running", "vllm:time_to_first_token_seconds_bucket"
OF_X = {"job": "vllm", "instance": "a:1", "model_name": "m", "engine": "0"}
SERIES = [
    {"series": X, "values": "1+1x60", **OF_X},
    {"series": "up", "values": "1x60", "job": "vllm", "instance": "a:1"},
    {"series": BUCKET, "values": "0+1x60", **OF_X, "le": "1.0"},
    {"series": BUCKET, "values": "0+2x60", **OF_X, "le": "+Inf"},
]

ALL = frozenset(OF_X)
NONE: frozenset[str] = frozenset()

OF_INSTANT = "abs acos acosh asin asinh atan atanh ceil cos cosh deg exp floor ln log10 log2 rad sgn sin sinh sort sort_desc sqrt tan tanh timestamp round day_of_month day_of_week day_of_year days_in_month hour minute month year"  # fmt: skip
OF_RANGE = "avg_over_time changes count_over_time delta deriv idelta increase irate last_over_time max_over_time min_over_time present_over_time rate resets stddev_over_time stdvar_over_time sum_over_time"  # fmt: skip

#: An expression and the labels of what it gives.
KEPT = [
    *((f"{function}({X})", ALL) for function in OF_INSTANT.split()),
    *((f"{function}({X}[10m])", ALL) for function in OF_RANGE.split()),
    *((f"{function}({X}[10m:1m])", ALL) for function in ("rate", "max_over_time")),
    (f"quantile_over_time(0.9, {X}[10m])", ALL),
    (f"quantile_over_time(scalar(up), {X}[10m])", ALL),
    (f"quantile_over_time(0.45 * 2, {X}[10m:1m])", ALL),
    (f"predict_linear({X}[10m], 3600)", ALL),
    (f"predict_linear({X}[10m], 60 * 60)", ALL),
    (f"holt_winters({X}[10m], 0.5, 0.5)", ALL),
    (f"clamp({X}, 0, 5)", ALL),
    (f"clamp_min({X}, 0)", ALL),
    (f"clamp_max({X}, scalar(up))", ALL),
    (f"round({X}, 5)", ALL),
    (f"histogram_quantile(0.9, rate({BUCKET}[10m]))", ALL),
    (f"histogram_quantile(scalar(up), sum by (le, job) (rate({BUCKET}[10m])))", frozenset({"job"})),
    ("vector(1)", NONE),
    (f"vector(scalar({X}))", NONE),
    ("hour()", NONE),
    ("hour(vector(time()))", NONE),
    # absence
    ("absent(gone)", NONE),
    ('absent(gone{job="vllm",instance!="b"})', {"job"}),
    ('absent(gone{job="vllm",job!="b",instance="a:1"})', {"instance"}),
    ('absent(gone{job=~"vllm"})', NONE),
    ('absent_over_time(gone{job="vllm"}[10m])', {"job"}),
    ('absent_over_time(gone{job="vllm"}[10m:1m])', NONE),
    ('absent(rate(gone{job="vllm"}[10m]))', NONE),
    ('absent(sum by (job) (gone{job="vllm"}))', NONE),
    # labels made on the way
    (f'label_replace({X}, "pool", "$1", "instance", "(.*):.*")', ALL | {"pool"}),
    (f'label_replace({X}, "pool", "$1", "instance", "(q.*)")', ALL),
    (f'label_replace({X}, "engine", "", "instance", ".*")', ALL - {"engine"}),
    (f'label_replace({X}, "engine", "$1", "instance", "a:1(.*)")', ALL - {"engine"}),
    (f'label_replace({X}, "engine", "x", "instance", ".*")', ALL),
    (f'label_join({X}, "where", "/", "job", "instance")', ALL | {"where"}),
    (f'label_join({X}, "engine", "", "nowhere")', ALL - {"engine"}),
    (f'label_join({X}, "where", "", "job")', ALL | {"where"}),
    # aggregations
    *((f"{how} by (job, engine) ({X})", {"job", "engine"}) for how in ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"]),
    (f"sum({X})", NONE),
    (f"sum without (engine) ({X})", ALL - {"engine"}),
    (f"quantile by (job) (0.5, {X})", {"job"}),
    (f"quantile(scalar(up), {X})", NONE),
    (f"topk by (job) (1, {X})", ALL),
    (f"bottomk(1, {X})", ALL),
    (f'count_values by (job) ("value", {X})', {"job", "value"}),
    (f'count_values without (job) ("engine", {X})', ALL - {"job"}),
    # operators
    (f"-{X}", ALL),
    (f"{X} > 0", ALL),
    (f"0 < {X}", ALL),
    (f"{X} > bool 0", ALL),
    (f"{X} / {X}", ALL),
    (f"{X} / on (job, engine) {X}", {"job", "engine"}),
    (f"{X} > on (job) up", {"job"}),
    (f"{X} > ignoring (engine) {X} - 1", ALL - {"engine"}),
    (f"{X} and on (job) up", ALL),
    (f"up and on (job) {X}", {"job", "instance"}),
    (f"{X} unless on (job) gone", ALL),
    (f"{X} or {X} offset 1m", ALL),
    (f"{X} * on (job) group_left () up", ALL),
    (f"up * on (job) group_right () {X}", ALL),
    (f"sum by (job) ({X}) * on (job) group_left (instance) up", {"job", "instance"}),
    (f"{X} * on (job) group_left (engine) up", ALL - {"engine"}),
    (f"{X} atan2 {X}", ALL),
    (f"{X} @ end() offset 1m", ALL),
]  # fmt: skip
#: Those that the Prometheus which the tests have does not know yet; from its documentation.
LATER = [
    *((f"{function}({X}[10m])", ALL) for function in ("mad_over_time", "first_over_time", "ts_of_max_over_time")),
    (f"double_exponential_smoothing({X}[10m], 0.5, 0.5)", ALL),
    *((f'{function}({X}, "job")', ALL) for function in ("sort_by_label", "sort_by_label_desc")),
    (f'histogram_quantiles({BUCKET}, "q", 0.5, 0.9)', ALL | {"q"}),
    (f"histogram_fraction(0, 1, {BUCKET})", ALL),
    *((f"histogram_{part}({X})", ALL) for part in ("count", "sum", "avg", "stddev", "stdvar")),
    (f"limitk(1, {X})", ALL),
    (f"limit_ratio(0.5, {X})", ALL),
]  # fmt: skip


def test_prometheus_leaves_these_labels(promtool, tmp_path):
    tests = []
    series = [
        {
            "series": f"{row['series']}{{"
            + ",".join(f'{k}="{v}"' for k, v in row.items() if k not in {"series", "values"})
            + "}",
            "values": row["values"],
        }
        for row in SERIES
    ]
    for expr, labels in KEPT:
        # How many there are and whether each label is set, whatever its value.
        asked = sorted(ALL | {"le", "pool", "where", "value"} | set(labels))
        marked = f"group without () ({expr})"
        for label in asked:
            marked = f'label_replace({marked}, "{label}", "set", "{label}", ".+")'
        want = "{" + ",".join(f'{label}="set"' for label in sorted(labels)) + "}"
        tests.append({"expr": marked, "eval_time": "30m", "exp_samples": [{"labels": want, "value": 1}]})
    document = {
        "rule_files": [],
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}],
    }
    (tmp_path / "tests.yaml").write_text(json.dumps(document))
    done = run(promtool, "test", "rules", tmp_path / "tests.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


@pytest.mark.parametrize(("expr", "labels"), [*KEPT, *LATER], ids=[row[0] for row in [*KEPT, *LATER]])
def test_they_are_the_ones_that_we_take_them_to_be(expr, labels):
    known = labels_of(parse(expr), Context(of_release()))
    assert known.certain <= labels, "it is said to be there for sure, and is not"
    assert all(map(known.possible, labels)), "it is said to be impossible, and is there"
    # What Prometheus decides by the values at hand is left open; all else has to be certain.
    by_values = {"pool", "engine"} if "label_" in expr else NONE
    assert labels - known.certain <= by_values


def test_every_function_that_we_know_the_values_of_is_in_the_table():
    named = {
        word for expr, _ in [*KEPT, *LATER] for word in re.findall(r"\b(\w+)(?= ?\(| (?:by|without) )", expr)
    }
    assert {*CALLED, *AGGREGATED} - {"time", "pi"} - named == set()


@pytest.mark.parametrize(
    "expr",
    [
        "quantile_over_time(0.9, vllm:kv_cache_usage_perc[10m]) > 0.9 and on (instance) up == 1",
        "predict_linear(vllm:kv_cache_usage_perc[1h], 600) > 0.9 and on (instance) up == 1",
        "histogram_quantile(0.9, rate(vllm:time_to_first_token_seconds_bucket[5m])) > 2 and on (instance) up == 1",
        'label_replace(up, "pool", "$1", "instance", "(.*)") == 0 and on (instance) up == 0',
        'count_values by (instance) ("v", up) > 1 and on (instance) up == 1',
        "clamp_max(vllm:kv_cache_usage_perc, scalar(vector(1))) > 0.9 and on (instance) up == 1",
    ],
)
def test_a_condition_on_a_label_that_survives_is_no_fault(expr):
    assert [problem for problem in found(expr) if problem.level is not Level.INFO] == []


@pytest.mark.parametrize(
    "expr",
    [
        "quantile_over_time(0.9, vllm:kv_cache_usage_perc[10m]) > 0.9 and on (reason) vllm:num_requests_waiting_by_reason > 1",
        "quantile(0.9, vllm:kv_cache_usage_perc) > 0.9 and on (instance) up == 1",
        'absent_over_time(up{job="a"}[10m:1m]) and on (job) up == 1',
        "vllm:num_requests_running > 1 and on (engine) vllm:kv_cache_usage_perc * on (instance) group_left (engine) up > 0.9",
    ],
)
def test_one_on_a_label_that_is_lost_is(expr):
    assert "one-sided-label" in {problem.check for problem in found(expr)}


def test_a_quantile_over_time_is_of_what_it_is_taken():
    (problem,) = (
        problem
        for problem in found("quantile_over_time(0.9, vllm:kv_cache_usage_perc[10m]) > 90")
        if problem.level is Level.ERROR
    )
    assert problem.check == "ratio-as-percent"
