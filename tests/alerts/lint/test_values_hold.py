"""Prometheus never gives a value outside of the range that an expression is said to have: drawn by lot."""

from __future__ import annotations

import json
import random
from itertools import islice

import pytest

from support.rules import run
from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import filters
from vllm_observe.alerts.lint.parsing import ExpressionError, parse
from vllm_observe.alerts.lint.ranges import ALL
from vllm_observe.alerts.lint.tables import of_release
from vllm_observe.alerts.lint.values import Values

EXPRESSIONS = 400
SAMPLES = {
    "up": "0 1",
    "vllm:num_requests_running": "0 1 2 5 9 _ 100",
    "vllm:num_requests_waiting": "0 0 1 3 _",
    "vllm:kv_cache_usage_perc": "0 0.1 0.5 0.9 0.95 1",
    "vllm:generation_tokens_total": "0 0 3 100",  # what it grows by
    "somebodys_gauge": "-3 -0.5 0 1 2 5 9 NaN _",
}
OVER_TIME = ["rate", "increase", "delta", "deriv", "changes", "resets", "max_over_time", "min_over_time", "avg_over_time", "last_over_time", "sum_over_time", "count_over_time", "stddev_over_time", "present_over_time"]  # fmt: skip
OF_VALUES = [
    "abs",
    "ceil",
    "floor",
    "sgn",
    "sqrt",
    "round",
    "-",
    "clamp_min",
    "clamp_max",
    "clamp",
    "vector(scalar",
]
NUMBERS = ["0", "1", "0.5", "2", "5", "-1", "-3", "9", "0.9", "100"]
ENDS = {float("inf"): "Inf", float("-inf"): "-Inf"}


class Lot:
    """Draws expressions that Prometheus takes, and series for them."""

    def __init__(self, seed: int) -> None:
        self.lot = random.Random(seed)  # nobody is to be kept from guessing it

    def one(self, text: str) -> str:
        return self.lot.choice(text.split(","))

    def expression(self, depth: int) -> str:
        if depth == 0:
            return self._leaf()
        inner = self.expression(depth - 1)
        other = self.lot.choice([inner, self.expression(depth - 1), self.expression(depth - 1)])
        number, matching = (
            self.lot.choice(NUMBERS),
            self.one(",,on (job) ,on (instance; job) ").replace(";", ","),
        )
        aligned = matching if "instance" in matching else ""
        function = self.lot.choice(OF_VALUES)
        bounds = "".join(
            f", {self.lot.choice(NUMBERS)}" for _ in range({"clamp": 2}.get(function, "_m" in function))
        )
        return self.lot.choice(
            [
                f"({inner}) {self.one('>,<,>=,<=,==,!=')} {self.one(',,,bool ')}{number}",
                f"{number} {self.one('>,<,>=,<=,==')} ({inner})",
                f"({inner}) {self.one('>,<,>=,<=,==,!=')} {aligned}({other})",
                f"({inner}) {self.one('and,or,unless')} {matching}({other})",
                f"({inner}) {self.one('and,or,unless')} {matching}({other})",
                f"({inner}) {self.one('+,-,*,/,%,^')} {self.lot.choice([number, f'({other})'])}",
                f"{self.one('sum,avg,min,max,count,stddev,group')} {self.one(',by (job) ')}({inner})",
                f"{function}({inner}{bounds})" + ")" * function.count("("),
            ]
        )  # fmt: skip

    def _leaf(self) -> str:
        name = self.lot.choice([*SAMPLES]) + self.one(',,{instance="a"}')
        offset = self.one(",, offset 5m")
        window = f"{self.lot.choice(OVER_TIME)}({name}[{self.one('10m,20m,1h')}]{offset})"
        return self.lot.choice([name + offset, name, window, self.one("hour(),day_of_week(),vector(3)")])

    def series(self, name: str) -> str:
        drawn = [self.lot.choice(SAMPLES[name].split()) for _ in range(40)]
        if not name.endswith("_total"):
            return " ".join(drawn)
        total, values = 0, []
        for grown in drawn:
            total = 0 if self.lot.random() < 0.1 else total + int(grown)
            values.append(str(total))
        return " ".join(values)


def _claims(lot: Lot):
    """What must give nothing: what lies out of its range, and what a comparison that always holds leaves out."""
    while True:
        expr = lot.expression(lot.lot.choice([1, 2, 3, 4]))
        try:
            parsed = parse(expr)
        except ExpressionError:
            continue
        values = Values(Context(of_release()))
        found = values.of(parsed)
        if found.empty:
            yield "empty", f"count({expr})"
        elif found != ALL:
            low, high = (ENDS.get(end, repr(end)) for end in found)
            yield "bounded", f"count((({expr}) < {low}) or (({expr}) > {high}))"
        if filters(parsed) and expr.startswith("(") and not found.empty and values.always(parsed):
            left = expr[: _closed(expr)]
            yield "always", f"count(({left} == {left}) unless ({expr}))"


def _closed(expr: str) -> int:
    """Where the first parenthesis ends."""
    depth = 0
    for place, sign in enumerate(expr):
        depth += (sign == "(") - (sign == ")")
        if not depth:
            return place + 1
    raise AssertionError(expr)


@pytest.mark.parametrize("seed", [1, 2])
def test_prometheus_stays_within_the_ranges(seed, promtool, tmp_path):
    lot = Lot(seed)
    claims = list(islice(_claims(lot), EXPRESSIONS))
    kinds = [kind for kind, _ in claims]
    assert min(kinds.count(kind) for kind in ("empty", "bounded", "always")) >= 5, kinds
    tests = []
    for _ in range(2):
        series = [
            {"series": f'{name}{{job="vllm",instance="{instance}"}}', "values": lot.series(name)}
            for name in SAMPLES
            for instance in "ab"
        ]
        tests += [
            {
                "interval": "5m",
                "input_series": series,
                "promql_expr_test": [{"expr": q, "eval_time": at, "exp_samples": []} for _, q in claims],
            }
            for at in ("100m", "155m", "195m")
        ]
    (tmp_path / "tests.yaml").write_text(json.dumps({"rule_files": [], "tests": tests}))
    done = run(promtool, "test", "rules", tmp_path / "tests.yaml")
    assert done.returncode == 0, (done.stdout + done.stderr)[:3000]
