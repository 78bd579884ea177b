"""Our own rules: each can fire, and each way to break one is noticed."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest

from support.linting import BEHIND_SIDECAR, ON_VLLM, PLAIN, SIDECAR, rendered, vocabulary_of
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.problem import Level
from vllm_observe.alerts.lint.rulefiles import Rule, read_rules
from vllm_observe.alerts.lint.tables import of_release

OPTIONS = {"behind a sidecar": (BEHIND_SIDECAR, SIDECAR), "on vLLM's page": (ON_VLLM, PLAIN)}


@pytest.fixture(params=OPTIONS)
def ours(request, tmp_path):
    """Our rules, and the page that they watch."""
    options, page = OPTIONS[request.param]
    return read_rules([str(rendered(tmp_path, options))]), vocabulary_of(page)


def test_our_rules_have_no_fault_on_the_page_that_they_watch(ours):
    rules, page = ours
    assert [problem for problem in lint(rules, page) if problem.level is not Level.INFO] == []


def test_our_rules_have_no_fault_for_the_newest_release(ours):
    rules, _ = ours
    assert [problem for problem in lint(rules, of_release()) if problem.level is not Level.INFO] == []


# --- Each rule broken in each way -----------------------------------------------------------------

#: A metric, and not what a rule of ours records.
_NAME = re.compile(r"\bvllm(?::|_observe_)\w+\b(?!:)")
_TOTAL = re.compile(r"\bvllm(?:_observe_|:)\w+_total\b")
_LE = re.compile(r'le=~?"[^"]+"')
_LE_KEPT = re.compile(r", le\)")
_LABEL = re.compile(r"\b(?:reason|cause|outcome|parts|state)(?==|!)")
_RATE = re.compile(r"\b(?:rate|increase)\(([^()\[\]]+)\[\w+\](?: offset \w+)?\)")
#: A comparison with a number, not with that many times something else.
_BOUND = re.compile(r"(?P<operator>[<>]=?|==) (?P<number>\d+(?:\.\d+)?)(?![.\d]| \* [^\d.])")
#: A rate that is made a number of requests again, to see whether there were enough.
_AS_COUNT = re.compile(r"\) \* \d+ $")
_CLAUSE = re.compile(r"\n(?:and|unless) ")

_RATIO = re.compile(
    r"ratio|usage_perc|_hits_total|accepted_tokens|vllm_observe_requests_total|unparsed|closed"
)
_SECONDS = re.compile(r"_seconds_(?:sum|bucket)")


def _each(pattern: re.Pattern[str], change: Callable[[re.Match[str]], str], rule: Rule) -> Iterator[Rule]:
    """Change one place after another."""
    for match in pattern.finditer(rule.expr):
        changed = rule.expr[: match.start()] + change(match) + rule.expr[match.end() :]
        yield replace(rule, expr=changed)


def _scaled(rule: Rule, about: re.Pattern[str], factor: float) -> Iterator[Rule]:
    """Scale the bounds of those parts of an alert that are about something, and not about enough traffic."""
    for match in _BOUND.finditer(rule.expr) if rule.alerts else ():
        clause = _CLAUSE.split(rule.expr[: match.start()])[-1]
        number = float(match["number"])
        if (
            number
            and about.search(clause)
            and "increase(" not in clause
            and not _AS_COUNT.search(clause)
            and "_count[" not in clause.split("/")[0]
        ):
            bound = f"{match['operator']} {number * factor:g}"
            yield replace(rule, expr=rule.expr[: match.start()] + bound + rule.expr[match.end() :])


def _without_for(rule: Rule) -> Iterator[Rule]:
    if rule.alerts and rule.hold:
        yield replace(rule, hold=None)


MUTATIONS: dict[str, Callable[[Rule], Iterator[Rule]]] = {
    "metric renamed": partial(_each, _NAME, lambda match: f"{match[0]}_new"),
    "metric misspelt": partial(_each, _NAME, lambda match: match[0][:-3] + match[0][-2:]),
    "_total dropped": partial(_each, _TOTAL, lambda match: match[0].removesuffix("_total")),
    "le respelled": partial(_each, _LE, lambda match: 'le="30"' if "30" in match[0] else 'le="2.50"'),
    "le not kept": partial(_each, _LE_KEPT, lambda _: ")"),
    "label misspelt": partial(_each, _LABEL, lambda match: f"{match[0]}s"),
    "ratio x 100": partial(_scaled, about=_RATIO, factor=100),
    "seconds x 1000": partial(_scaled, about=_SECONDS, factor=1000),
    "rate removed": partial(_each, _RATE, lambda match: match[1]),
    "for removed": _without_for,
}


def test_the_linter_notices_when_a_rule_of_ours_is_broken(ours, capsys):
    rules, page = ours
    before = {id(rule): set(_told(rule, rules, rule, page)) for rule in rules}
    made, noticed = Counter(), Counter()
    missed = []
    for kind, mutate in MUTATIONS.items():
        for rule in rules:
            for broken in mutate(rule):
                made[kind] += 1
                if set(_told(broken, rules, rule, page)) - before[id(rule)]:
                    noticed[kind] += 1
                else:
                    missed.append((kind, rule.name, broken.expr))
    table = "".join(f"  {kind:<16}{noticed[kind]:>4} of {count:>4} noticed\n" for kind, count in made.items())
    with capsys.disabled():
        sys.stdout.write(f"\n{table}")
    assert all(made[kind] for kind in MUTATIONS), made
    assert sum(noticed.values()) >= 0.95 * sum(made.values()), missed
    assert all(noticed[kind] >= 0.8 * count for kind, count in made.items()), missed


def _told(broken, rules, original, page):
    """What is said of one rule, among the recordings that it builds on, and those that these do."""
    others, asked = [], [broken.expr]
    while asked:
        expr = asked.pop()
        new = [rule for rule in rules if rule is not original and rule.name in expr and rule not in others]
        others += new
        asked += [rule.expr for rule in new]
    return [
        (problem.check, problem.message)
        for problem in lint([broken, *others], page)
        if (problem.rule, problem.line, problem.file) == (original.name, original.line, original.file)
    ]
