"""Durations in rule files: promtool's verdict is ours."""

from __future__ import annotations

import pytest

from support.rules import run
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.rulefiles import read_rules
from vllm_observe.alerts.lint.tables import of_release
from vllm_observe.alerts.lint.timing import wrong_duration

WELL = ["0", "0s", "5m", "1h30m", "90s", "250ms", "1y2w3d4h5m6s7ms", "292y", "1000000h", "007m"]
WRONG = [
    "banana", "5", "''", "' 5m'", "30m1h", "-5m", "+5m", "1.5h", "5M", "5 m", "5m5m", "293y", "5min", "0x5",
    "99999999999999999999999y", "\u0665m", "1e3s",
]  # fmt: skip
PLACES = {
    "for": "groups: [{name: g, rules: [{alert: A, expr: up == 0, for: DURATION}]}]",
    "keep_firing_for": "groups: [{name: g, rules: [{alert: A, expr: up == 0, for: 5m, keep_firing_for: DURATION}]}]",
    "interval": "groups: [{name: g, interval: DURATION, rules: [{alert: A, expr: up == 0, for: 5m}]}]",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("duration", [*WELL, *WRONG])
def test_promtool_and_we_say_the_same(duration, place, promtool, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(PLACES[place].replace("DURATION", duration))
    found = [problem for problem in lint(read_rules([str(file)]), of_release()) if problem.check == "syntax"]

    assert run(promtool, "check", "rules", file).returncode == (duration in WRONG)
    assert bool(found) is (duration in WRONG)
    assert all(problem.message.startswith(f"{place}: ") for problem in found)


def test_a_groups_own_duration_is_told_once(tmp_path):
    file = tmp_path / "rules.yaml"
    rule = "{alert: A, expr: up == 0, for: 5m}"
    file.write_text(f"groups: [{{name: g, interval: often, rules: [{rule}, {rule}]}}]")
    problems = lint(read_rules([str(file)]), of_release())
    assert [problem.check for problem in problems].count("syntax") == 1


def test_a_number_of_any_length_takes_no_time():
    assert "292 years" in wrong_duration("9" * 100_000 + "m")
