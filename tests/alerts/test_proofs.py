"""Every rule is proven to fire and to stay quiet, and the proofs would see a rule that is off."""

from __future__ import annotations

import copy
import re

import pytest
import yaml

from support.rules import FORMS, PROMISED_FORM, alerts_of, rendered, run
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.rulefiles import read_rules
from vllm_observe.alerts.lint.tables import of_release
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.proofs.course import counter, gauge
from vllm_observe.alerts.proofs.files import test_files as unit_tests
from vllm_observe.alerts.proofs.registry import page_of, proofs_of
from vllm_observe.alerts.proofs.render import holds
from vllm_observe.alerts.proofs.render import unit_tests as document_of
from vllm_observe.alerts.rules import rule_groups
from vllm_observe.thresholds import JUDGED_MIN_REQUESTS


def test_each_rule_has_a_proof(rules):
    assert set(proofs_of(rules.groups, rules.options)) == set(holds(rules.groups))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form, options in FORMS.items() for name in unit_tests(options)]
)
def test_the_proofs_hold(form, name, promtool, tmp_path):
    rendered(form, tmp_path)
    done = run(promtool, "test", "rules", tmp_path / "tests" / name)

    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_that_are_asked_for_have_proofs_that_hold(promtool, tmp_path):
    made = rendered(PROMISED_FORM, tmp_path)
    asked_for = set(holds(made.groups)) - set(holds(rule_groups(RuleOptions())))
    proofs = proofs_of(made.groups, made.options)
    assert {rule.alert for rule in asked_for} == {"VLLMThroughputBelowTarget"}
    scenes = [scene for rule in asked_for for scene in proofs[rule].scenes(holds(made.groups)[rule])]
    rules = [f"rules/{file.name}" for file in made.files]
    (tmp_path / "asked.yaml").write_text(document_of(scenes, page_of(made.options), rules))

    done = run(promtool, "test", "rules", tmp_path / "asked.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("course", "expected"),
    [
        (gauge(4), "4+0x3"),
        (gauge(1, (60, 0)), "1+0x1 0+0x1"),
        (gauge((60, 7)), "_x2 7+0x1"),
        (gauge(1, (60, None)), "1+0x1 stale _x1"),
        (gauge(float("nan")), "NaN NaN NaN NaN"),
        (counter(2), "0+60x3"),
        (counter(0, (60, 1)), "0+0x1 30+30x1"),
        (counter((60, 0), start=1), "_x2 1+0x1"),
    ],
)
def test_a_course_is_written_as_promtool_reads_it(course, expected):
    assert course.values(90) == expected


#: The first number that a rule compares with is what it is about. A switch, 0 or 1, is none, and neither
#: is the least number of requests that are judged.
_COMPARED = re.compile(
    rf"(?<=[<>=] )(?!0\b(?!\.)|{JUDGED_MIN_REQUESTS}\b|1\)*$)(?:[0-9.]+ \* )*[0-9.]+(?:e-?[0-9]+)?"
)


def variants(rule):
    """A rule with another ``for``, and with each of the numbers that decide larger or smaller."""
    hold = _seconds(rule.get("for", "0s"))
    yield "for", {**rule, "for": f"{hold + 300}s"}
    if hold:
        yield "no for", {**rule, "for": "0s"}
    decides = _COMPARED.search(rule["expr"])
    for name, factor in (("more", 1.5), ("less", 0.6)) if decides else ():
        # A budget has two windows, and one number for both.
        number = re.compile(rf"(?<=[<>=] ){re.escape(decides.group())}(?![0-9.])")
        yield name, {**rule, "expr": number.sub(f"({decides.group()}) * {factor}", rule["expr"])}


def _seconds(span):
    return int(span[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[span[-1]]


def _with_variants(text):
    """A group's rules, each followed by its variants; and the variants' names by the rule they are of."""
    document, names = yaml.safe_load(text), {}
    group = document["groups"][0]
    everything = []
    for number, rule in enumerate(group["rules"]):
        everything.append(rule)
        for how, variant in variants(rule) if "alert" in rule else ():
            name = f"V{number} {how}".replace(" ", "_")
            names[name] = (rule["alert"], rule["labels"])
            everything.append({**copy.deepcopy(variant), "alert": name})
    group["rules"] = everything
    return yaml.safe_dump(document), names


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", FORMS)
def test_a_rule_that_is_off_fails_its_proof(form, promtool, tmp_path):
    """Beside each rule stand variants of it, asked the same: none may give what the rule gives."""
    made = rendered(form, tmp_path)
    survivors = []
    for file in made.files:
        text, names = _with_variants(file.read_text())
        (tmp_path / "variants.yaml").write_text(text)
        tests = yaml.safe_load((tmp_path / "tests" / file.name).read_text())
        tests["rule_files"] = ["variants.yaml"]
        for test in tests["tests"]:
            test["promql_expr_test"] = list(_asked(test, names))
        (tmp_path / "mutated.yaml").write_text(yaml.safe_dump(tests))
        done = run(promtool, "test", "rules", tmp_path / "mutated.yaml")
        said = done.stdout + done.stderr
        survivors += [f"{alert} {name}" for name, (alert, _) in names.items() if f'\\"{name}\\"' not in said]
    assert not survivors


def _asked(test, names):
    """The checks of a scene, of each variant of the rule that the scene is about."""
    about = re.match(r"(\w+) (critical|warning|info)(?: (\w+))?, (\w+)", test["name"]).groups()
    for name, (alert, labels) in names.items():
        if about[:3] != (alert, labels["severity"], labels.get("window")):
            continue
        if labels["service_class"] in {"batch", "interactive"} and about[3] != labels["service_class"]:
            continue
        for check in test["promql_expr_test"]:
            firing = any(
                f'alertname="{alert}"' in s["labels"] and _same(s["labels"], labels)
                for s in check["exp_samples"]
            )
            yield {
                "expr": f'group(ALERTS{{alertstate="firing",alertname="{name}"}})',
                "eval_time": check["eval_time"],
                "exp_samples": [{"labels": "{}", "value": 1}] if firing else [],
            }


def _same(told, labels):
    wanted = {"severity": labels["severity"], **({"window": labels["window"]} if "window" in labels else {})}
    return all(f'{name}="{value}"' in told for name, value in wanted.items())


def test_promtool_finds_nothing_to_say(rules, promtool):
    done = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *rules.files)

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_window_is_too_short_for_a_scrape_a_minute(rules):
    """A short outage of the scrape must not take an alert with it: the linter asks for four samples."""
    found = lint(read_rules(map(str, rules.files)), of_release(), scrape_interval=60.0)

    assert [problem.message for problem in found if problem.check == "short-window"] == []


def test_every_rule_file_holds_an_alert(rules):
    assert all(alerts_of(file.read_text()) for file in rules.files)
