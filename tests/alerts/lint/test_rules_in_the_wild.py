"""Rule files with the faults that public ones have: all are found, and nothing else is said."""

from __future__ import annotations

import subprocess

import pytest

from support.linting import PLAIN, TESTS, vocabulary_of
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.rulefiles import read_rules
from vllm_observe.alerts.lint.tables import of_release

RULES = TESTS / "data" / "rules"

#: What is wrong, by file: the rule, its line, and the check that says so.
WRONG = {
    "gateway.yaml": {("ServingPreemptions", 5, "unknown-metric")},
    "replicas.yaml": {
        ("ReplicaDown", 17, "count-of-nothing"),
        ("SlowRequestsPresent", 23, "le-value"),
        ("SlowRequestsPresent", 23, "one-sided-label"),
    },
    "absence.yaml": {
        ("MetricsAbsent", 7, "global-absent"),
        ("FirstTokenVerySlow", 19, "seconds-as-milliseconds"),
    },
    "chart.yaml": {
        ("CachePressure", 5, "unknown-metric"),
        ("CachePressure", 5, "ratio-as-percent"),
        ("CachePressurePercent", 19, "ratio-as-percent"),
        ("CachePressurePercent", 19, "template-label"),
        ("ErrorsSeen", 24, "raw-counter"),
        ("ErrorsSeen", 24, "missing-for"),
        ("ErrorsSeen", 24, "unknown-value"),
    },
}
#: What is worth knowing of rules that are right otherwise.
REMARKS = {
    "gateway.yaml": {
        ("ServingQueueLong", 13, "frozen-gauge"),
        ("ServingQueueLong", 13, "fixed-queue-depth"),
        ("ServingPrefixCacheCold", 26, "unguarded-ratio"),
    },
    "replicas.yaml": set(),
    "absence.yaml": set(),
    "chart.yaml": {
        ("CachePressure", 5, "frozen-gauge"),
        ("CachePressureOnAnyRelease", 11, "unknown-metric"),
        ("CachePressurePercent", 19, "frozen-gauge"),
        ("CachePressurePercent", 19, "mean-of-quantiles"),
        ("CachePressurePercent", 19, "missing-annotation"),
    },
}


def told(name, vocabulary, *levels):
    problems = lint(read_rules([str(RULES / name)]), vocabulary)
    return {(problem.rule, problem.line, problem.check) for problem in problems if problem.level in levels}


@pytest.mark.parametrize("name", WRONG)
def test_each_fault_is_found_and_nothing_is_said_of_sound_rules(name):
    assert told(name, of_release(), Level.ERROR, Level.WARNING) == WRONG[name]
    assert told(name, of_release(), Level.INFO) == REMARKS[name]


@pytest.mark.parametrize("name", WRONG)
def test_a_page_tells_the_same(name):
    page = vocabulary_of(PLAIN)
    assert told(name, page, Level.ERROR, Level.WARNING) == WRONG[name]
    assert told(name, page, Level.INFO) == REMARKS[name]


#: One trap of public rule files each, which says in its first line what is to be said of it.
TRAPS = sorted((RULES / "traps").glob("*.yaml"))


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.stem)
@pytest.mark.parametrize("vocabulary", [of_release(), vocabulary_of(PLAIN)], ids=["a release", "a page"])
def test_a_trap_is_found(trap, vocabulary):
    level, check = trap.read_text().partition("\n")[0].removeprefix("# says: ").split()
    said = {(problem.level.value, problem.check) for problem in lint(read_rules([str(trap)]), vocabulary)}
    assert (level, check) in said
    assert not {other for other in said if other[0] == "error" and other != (level, check)}


def test_promtool_finds_none_of_it(promtool):
    """Else nobody would need this: the files are valid rules, apart from the Operator's own object."""
    files = [*(str(RULES / name) for name in WRONG if name != "replicas.yaml"), *map(str, TRAPS)]
    assert (
        subprocess.run([promtool, "check", "rules", *files], check=False, capture_output=True).returncode == 0
    )
