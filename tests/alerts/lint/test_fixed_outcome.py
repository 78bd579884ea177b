"""Conditions that come out in one way only, beside their nearest kin that do not: Prometheus itself says which is which."""

from __future__ import annotations

import json
from math import inf, nextafter

import pytest

from support.linting import PLAIN, a_recording, an_alert, found, vocabulary_of
from support.rules import run
from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.parsing import parse
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.tables import of_release
from vllm_observe.alerts.lint.values import Values

RUNNING, WAITING, KV = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
FORMER, TOKENS, PREEMPTED = (
    "vllm:gpu_cache_usage_perc",
    "vllm:generation_tokens_total",
    "vllm:num_preemptions_total",
)
_RATE = f"rate({TOKENS}[15m])"

#: What never is true, its kin that can be, and the values of series, one each five minutes, from 22:00 on a
#: Sunday: at their end the kin gives something. Of these, two servers each where a name has two values.
NEVER = [
    ("up == 0 and up == 1", "up == 0 and on (job) up == 1", {"up": ("0", "1")}),
    ("up == 0 and up == 1", "up == 0 and up offset 5m == 1", {"up": ("1 1 0",)}),
    (f"sum by (job) ({RUNNING}) > 8 and on (job) sum by (job) ({RUNNING}) < 4",
     f"sum by (job) ({RUNNING}) > 8 and on (job) min by (job) ({RUNNING}) < 4", {RUNNING: ("9", "3")}),
    (f"0.9 < {KV} < 0.5", f"0.5 < {KV} < 0.9", {KV: ("0.7",)}),
    (f"{KV} > 0.9 unless {KV} > 0.8", f"{KV} > 0.8 unless {KV} > 0.9", {KV: ("0.85",)}),
    (f"{RUNNING} unless {RUNNING}", f"{RUNNING} offset 5m unless {RUNNING}", {RUNNING: ("1 _ _",)}),
    (f"{_RATE} / {_RATE} > 1", f"{_RATE} / (rate({TOKENS}[15m] offset 5m)) > 1", {TOKENS: ("0 9 99 999 9999",)}),
    (f"{RUNNING} > {RUNNING}", f"{RUNNING} > {RUNNING} offset 5m", {RUNNING: ("1 2 3",)}),
    (f"delta({RUNNING}[10m]) - delta({RUNNING}[10m]) > 0",
     f"delta({RUNNING}[10m]) - delta({RUNNING}[10m] offset 5m) > 0", {RUNNING: ("1 1 1 1 9",)}),
    (f"clamp_min({_RATE}, 1) < 1", f"clamp_max({_RATE}, 1) < 1", {TOKENS: ("0 0 0",)}),
    (f"clamp_max({KV}, 0.8) > 0.9", f"clamp_max({KV}, 0.95) > 0.9", {KV: ("0.92",)}),
    (f"clamp({RUNNING}, 8, 1) > 2", f"clamp({RUNNING}, 1, 8) > 2", {RUNNING: ("3",)}),
    (f"{RUNNING} > max_over_time({RUNNING}[1h])", f"{RUNNING} > max_over_time({RUNNING}[1h] offset 5m)",
     {RUNNING: ("1 2 3",)}),
    (f"{RUNNING} < min_over_time({RUNNING}[15m])", f"{RUNNING} < avg_over_time({RUNNING}[15m])",
     {RUNNING: ("3 2 1",)}),
    (f"avg_over_time({KV}[5m]) > max_over_time({KV}[15m])", f"avg_over_time({KV}[15m]) > max_over_time({KV}[5m])",
     {KV: ("0.9 0.9 0.1 0.1",)}),
    (f"{_RATE} < 0", f"deriv({RUNNING}[10m]) < 0", {RUNNING: ("3 2 1",), TOKENS: ("0 1 2",)}),
    (f"changes({RUNNING}[10m]) < 0", f"delta({RUNNING}[10m]) < 0", {RUNNING: ("3 2 1",)}),
    ('absent(up{instance="b"}) == 0', 'absent(up{instance="b"}) == 1', {"up": ("1",)}),
    (f"present_over_time({RUNNING}[10m]) == 0", f"count_over_time({RUNNING}[20m]) < 3", {RUNNING: ("1 _ _ 1",)}),
    ("up > 1", "sum by (job) (up) > 1", {"up": ("1", "1")}),
    ("up == 2", 'count_values by (job) ("v", up) == 2', {"up": ("1", "1")}),
    (f"({RUNNING} > bool 4) > 1", f"sum by (job) ({RUNNING} > bool 4) > 1", {RUNNING: ("5", "6")}),
    (f"{RUNNING} > 0 and on () (hour() > 22 and hour() < 6)", f"{RUNNING} > 0 and on () (hour() > 21 or hour() < 6)",
     {RUNNING: ("1",)}),
    (f"{RUNNING} > 0 and on () day_of_week() == 7", f"{RUNNING} > 0 and on () day_of_week() == 0", {RUNNING: ("1",)}),
    (f"{RUNNING} % 8 == 8", f"{RUNNING} % 8 == 7", {RUNNING: ("15",)}),
    (f"floor({KV}) > 1", f"ceil(10 * {KV}) > 1", {KV: ("0.9",)}),
    (f"abs(delta({RUNNING}[10m])) < 0", f"abs(delta({RUNNING}[10m])) > 0", {RUNNING: ("1 2 3",)}),
    (f"{RUNNING} > 3 and {WAITING} > 0 and {RUNNING} < 2", f"{RUNNING} > 3 and {WAITING} > 0 and {RUNNING} < 9",
     {RUNNING: ("5",), WAITING: ("1",)}),
]  # fmt: skip

#: What fires however low the values are, its kin that does not, and such values.
ALWAYS = [
    (f"{_RATE} >= 0", f"{_RATE} > 0", {TOKENS: ("0 0 0",)}),
    (f"clamp_min({_RATE}, 1) > 0.5", f"clamp_max({_RATE}, 1) > 0.5", {TOKENS: ("0 0 0",)}),
    (f"rate({PREEMPTED}[15m]) / rate({PREEMPTED}[15m]) >= 1", f"rate({PREEMPTED}[15m]) / {_RATE} >= 1",
     {PREEMPTED: ("0 1 2",), TOKENS: ("0 9 18",)}),
    (f"{FORMER} or {KV} > 0.9", f"({FORMER} or {KV}) > 0.9", {FORMER: ("0.1",), KV: ("0.1",)}),
    (f"{RUNNING} > 9 or vector(0)", f"({RUNNING} or vector(0)) > 9", {RUNNING: ("1",)}),
    (f"{RUNNING} != 1 or {RUNNING} != 2", f"{RUNNING} != 1 and {RUNNING} != 2", {RUNNING: ("1",)}),
    (f"{RUNNING} > 2 or {RUNNING} < 8", f"{RUNNING} > 8 or {RUNNING} < 1", {RUNNING: ("5",)}),
    (f"count by (job) ({RUNNING}) >= 1", f"count by (job) ({RUNNING} > 8) >= 1", {RUNNING: ("1",)}),
    ("up >= 0 and up <= 1", "up >= 0 and up < 1", {"up": ("1",)}),
    (f"{RUNNING} <= max_over_time({RUNNING}[1h])", f"{RUNNING} >= max_over_time({RUNNING}[1h])", {RUNNING: ("9 1",)}),
    (f"{RUNNING} == {RUNNING}", f"{RUNNING} == {RUNNING} offset 5m", {RUNNING: ("9 1",)}),
    (f"{RUNNING} != bool 8 >= 0", f"{RUNNING} == bool 8 > 0", {RUNNING: ("1",)}),
]  # fmt: skip

PAIRS = [*((*row, True) for row in NEVER), *((*row, False) for row in ALWAYS)]


def told(*rules, **options):
    return [(p.level, p.message) for p in found(*rules, **options) if p.check == "fixed-outcome"]


@pytest.mark.parametrize("trap", [row[0] for row in PAIRS])
def test_what_comes_out_in_one_way_only_is_an_error(trap):
    by = [p.check for p in found(trap) if p.level is Level.ERROR]
    assert len(by) == 1
    assert set(by) <= {"fixed-outcome", "ratio-as-percent"}  # a part of a whole is that one's, with its mend


@pytest.mark.parametrize("twin", [row[1] for row in PAIRS])
def test_its_kin_is_let_be(twin):
    assert told(twin) == []
    assert told(twin, page=PLAIN) == []


def test_prometheus_says_the_same(promtool, tmp_path):
    """It gives nothing for the one and something for the other, from the same series, or the other way round."""
    tests = []
    for trap, twin, series, kin_fires in PAIRS:
        length = max(len(values.split()) for servers in series.values() for values in servers)
        until = 22 * 60 + 3 * 24 * 60  # the epoch began on a Thursday
        inputs = [
            {
                "series": f'{name}{{job="vllm",instance="{instance}"}}',
                "values": _filled(values, length, until),
            }
            for name, servers in series.items()
            for instance, values in zip("ac", servers, strict=False)
        ]
        fires = [{"labels": "{}", "value": 1}]
        tests.append(
            {
                "interval": "5m",
                "input_series": inputs,
                "promql_expr_test": [
                    {"expr": f"group({trap})", "eval_time": f"{until}m", "exp_samples": [] if kin_fires else fires},
                    {"expr": f"group({twin})", "eval_time": f"{until}m", "exp_samples": fires if kin_fires else []},
                ],
            }
        )  # fmt: skip
    (tmp_path / "tests.yaml").write_text(json.dumps({"rule_files": [], "tests": tests}))
    done = run(promtool, "test", "rules", tmp_path / "tests.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def _filled(values, length, until):
    """Values that end at a minute, after as many gaps as it takes."""
    samples = values.split()
    return f"_x{until // 5 + 1 - length} {' '.join(samples)}" + " _" * (length - len(samples))


@pytest.mark.parametrize(
    "expr",
    [
        f"{RUNNING} > 5 and {WAITING} >= 0",  # asks whether the other is there
        "vector(1) > 0",  # a heartbeat
        f"{KV} != {KV}",  # asks for NaN
        f"{KV} unless {KV} >= 0",
        f"{RUNNING} > 5 or ALERTS{{alertstate='firing'}}",
        f"{RUNNING} > 5 or on () absent(up{{instance='a'}})",
        f"{RUNNING} @ start() > {RUNNING} @ end()",
        f"max_over_time({_RATE}[1h:]) > max_over_time({_RATE}[1h:] offset 1d)",
        f"max_over_time({_RATE}[1h:1m]) > max_over_time({_RATE}[1h:5m])",
        f"{RUNNING} > on (job) group_left () {RUNNING}{{engine='0'}}",
        "vllm_observe_clock_skew_seconds < 0",
        f"clamp_max({RUNNING}, 49) / 49 >= 1",  # which is not 49 * (1 / 49)
    ],
)
def test_what_looks_like_it_and_is_not_is_let_be(expr):
    assert told(expr) == []


def test_half_a_rule_that_gives_nothing_is_a_warning():
    ((level, message),) = told(f"{RUNNING} > 8 or up > 1")
    assert level is Level.WARNING
    assert message == (
        "> 1 is never true: what is compared goes from 0 to 1: this part of the rule gives nothing"
    )  # fmt: skip


def test_a_guard_that_always_holds_is_a_warning():
    guard = "on () (hour() > 8 or hour() < 20)"
    assert told(f"{RUNNING} > 8 and {guard}") == [
        (Level.WARNING, "one side of `or` or the other holds for every value of hour()")
    ]


def test_a_recording_of_something_by_itself_is_a_warning():
    assert told(a_recording("a:b:ratio", f"sum({_RATE}) / sum({_RATE})")) == [
        (Level.WARNING, "both sides of `/` are the same: the result is always 1")
    ]
    assert told(a_recording("a:b:ratio", f"sum(rate({PREEMPTED}[15m])) / sum({_RATE})")) == []


def test_what_another_check_says_with_its_mend_is_not_said_twice():
    assert told(f"{KV} > 90") == told("count(up == 1) == 0") == []


def test_what_is_recorded_is_known_whoever_records_it():
    rules = a_recording("a:b:rate", _RATE), a_recording("a:b:rate", f"rate({PREEMPTED}[15m])")
    assert [level for level, _ in told("a:b:rate < 0", *rules)] == [Level.ERROR]
    assert told("a:b:rate < 0", *rules, a_recording("a:b:rate", f"delta({RUNNING}[5m])")) == []
    # A recording may be there only while something is wrong.
    assert told(f"{RUNNING} > 9 or a:b:bad", a_recording("a:b:bad", f"{KV} > 0.9")) == []


def test_of_a_metric_of_others_nobody_knows_when_it_is_there():
    assert [level for level, _ in told("gateway_full or gateway_pending > 9")] == [Level.WARNING]
    assert told(an_alert("gateway_full > 1 or gateway_pending > 9")) == []


def test_a_series_of_a_page_counts_only_up(tmp_path):
    page = tmp_path / "gateway.prom"
    page.write_text(
        "# TYPE gateway_seen counter\ngateway_seen_total 1\n# TYPE gateway_heat gauge\ngateway_heat 1\n"
    )
    context = Context(vocabulary_of(page))
    assert Values(context).of(parse("gateway_seen_total")) == (0, inf)
    assert Values(context).of(parse("gateway_heat")) == (-inf, inf)


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        ("up", 0, 1),
        ("-up", -1, 0),
        ("1 - up", 0, 1),
        ("x + 1", -inf, inf),
        (f"{RUNNING} + 1", 1, inf),
        (f"{RUNNING} / ({WAITING} + 2)", 0, inf),
        ("up / 4", 0, 0.25),
        ("up / -4", -0.25, 0),
        ("1 / up", 0, inf),
        ("x > 5", nextafter(5, inf), inf),
        ("x >= 5", 5, inf),
        ("5 > x", -inf, nextafter(5, -inf)),
        ("x == 5", 5, 5),
        ("x != 5", -inf, inf),
        ("x > bool 5", 0, 1),
        ("up > 0 or vector(7)", nextafter(0, 1), 7),
        ("sum(up)", 0, inf),
        ("sum(-up)", -inf, 0),
        ("avg(up)", 0, 1),
        ("quantile(0.9, up)", 0, 1),
        ("quantile(9, up)", -inf, inf),
        ("quantile_over_time(0.5, up[5m])", 0, 1),
        ("clamp(x, -1, 3)", -1, 3),
        ("clamp_min(up, 0.5)", 0.5, 1),
        ("abs(up - 3)", 2, 3),
        ("abs(up - 0.5)", 0, 0.5),
        ("scalar(up)", 0, 1),
        ("scalar(up > 2)", -inf, inf),
        ("predict_linear(up[1h], 60)", -inf, inf),
    ],
)  # fmt: skip
def test_the_values_that_an_expression_can_have(expr, low, high):
    assert Values(Context(of_release())).of(parse(expr)) == (low, high)
