"""No guard of a rule is there for nothing: without it, what some proof expects does not come."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import yaml

from support.guards import without_one
from support.rules import FORMS, rendered, run
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.rules import rule_groups


class Mutant(NamedTuple):
    """A rule without one of its guards."""

    name: str
    rule: dict
    group: str
    guard: str

    @property
    def told(self) -> str:
        return f"{self.rule['alert']} {self.rule['labels']['severity']}: {' '.join(self.guard.split())}"


def mutants(options, files) -> Iterator[Mutant]:
    """Of the rules on vllm's own page only what a sidecar's do not have: that is proven there."""
    proven = () if options.behind_sidecar else guards(RuleOptions(scope=options.scope))
    for file in files:
        for number, rule in enumerate(yaml.safe_load(file.read_text())["groups"][0]["rules"]):
            for guard, (left_out, expr) in enumerate(without_one(rule["expr"]) if "alert" in rule else ()):
                name = f"{file.stem.title().replace('-', '')}{number}Without{guard}"
                if (rule["alert"], left_out) not in proven:
                    yield Mutant(name, {**rule, "expr": expr}, file.stem, left_out)


def guards(options):
    return {
        (alert.name, left_out)
        for group in rule_groups(options)
        for alert in group.alerts
        for left_out, _ in without_one(alert.expr)
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", FORMS)
def test_a_rule_without_a_guard_fails_a_proof(form, promtool, tmp_path):
    """First asked are the proofs of its own group, of that rule; what is left is asked the edges."""
    made = rendered(form, tmp_path)
    left = list(mutants(made.options, made.files))
    assert left
    for test in sorted(made.tests, key=lambda file: file.stem == "edges"):
        asked = [one for one in left if test.stem in {one.group, "edges"}]
        found = _killed(asked, test, promtool, tmp_path) if asked else set()
        left = [one for one in left if one.name not in found]
    assert not [one.told for one in left]


def _killed(asked, tests, promtool, folder) -> set[str]:
    """Those of some rules that do not fire as the checks of a file want it."""
    recordings = [
        rule
        for file in (folder / "rules").glob("*.yaml")
        for rule in yaml.safe_load(file.read_text())["groups"][0]["rules"]
        if "record" in rule
    ]
    changed = [
        {
            "alert": one.name,
            **{key: one.rule[key] for key in ("expr", "for", "keep_firing_for") if key in one.rule},
        }
        for one in asked
    ]
    # In one group, since promtool evaluates several in no order of theirs.
    group = {"name": "mutants", "rules": [*recordings, *changed]}
    (folder / "mutants.yaml").write_text(json.dumps({"groups": [group]}))
    document = yaml.safe_load(tests.read_text())
    document["rule_files"] = ["mutants.yaml"]
    for test in document["tests"]:
        test["promql_expr_test"] = [
            check for one in asked for check in _checks(test, one, edges=tests.stem == "edges")
        ]
    document["tests"] = [test for test in document["tests"] if test["promql_expr_test"]]
    (folder / "asked.yaml").write_text(json.dumps(document))
    done = run(promtool, "test", "rules", folder / "asked.yaml")
    said = done.stdout + done.stderr
    assert done.returncode == 0 or "exp:" in said, said[:2000]
    return {one.name for one in asked if re.search(rf'\\"{one.name}\\"', said)}


def _checks(test, mutant, *, edges) -> Iterator[dict]:
    """What a scene expects of a mutant: what it expects of the rule."""
    labels = mutant.rule["labels"]
    own = re.match(r"(\w+) (\w+)(?: (\w+))?, (\w+):", test["name"])
    if not edges and not (own and _is(labels, mutant.rule["alert"], own.groups())):
        return
    for check in test["promql_expr_test"]:
        only = re.search(r'alertname="(\w+)",severity="(\w+)"', check["expr"])
        if only and only.groups() != (mutant.rule["alert"], labels["severity"]):
            continue
        firing = any(
            _is(labels, mutant.rule["alert"], _identity(sample["labels"])) for sample in check["exp_samples"]
        )
        yield {
            "expr": f'group(ALERTS{{alertstate="firing",alertname="{mutant.name}"}})',
            "eval_time": check["eval_time"],
            "exp_samples": [{"labels": "{}", "value": 1}] if firing else [],
        }


def _identity(labels):
    told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
    return told["alertname"], told["severity"], told.get("window"), told["service_class"]


def _is(labels, alert, identity) -> bool:
    """Whether a rule is the one of an identity; a class that the rule asks for is none of its own."""
    mine = labels["service_class"]
    of_class = identity[3] if "{{" in mine else mine
    return identity == (alert, labels["severity"], labels.get("window"), of_class)
