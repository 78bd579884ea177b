"""Each alert has a runbook that works: its queries parse and name what exists, its commands are commands."""

from __future__ import annotations

import json
import re
import shlex
from importlib.resources import files

import pytest
import typer
from click.exceptions import UsageError

from support.rules import run
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.rule import Recording
from vllm_observe.alerts.rules import rule_groups
from vllm_observe.alerts.runbooks import runbooks
from vllm_observe.cli import app
from vllm_observe.signals import OWN, SIGNALS

OPTIONS = RuleOptions(tokens_per_second=100)
GROUPS = rule_groups(OPTIONS)
TEXTS = runbooks(GROUPS)
HEADINGS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Rule"]
#: Metrics of other programs: the process's own, vLLM's web framework's, DCGM's.
FOREIGN = re.compile(r"up|process_(start_time|cpu)_seconds(_total)?|http_requests_total|DCGM_FI_DEV_\w+")
SUFFIXES = ("_bucket", "_sum", "_count")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def diagnosis(text):
    return text.partition("## Rule")[0]


def test_each_alert_has_a_runbook_and_each_runbook_an_alert():
    written = {file.name.removesuffix(".md") for file in files("vllm_observe.alerts.runbooks").iterdir()}

    assert written - {"__init__.py", "__pycache__"} == set(TEXTS)
    assert set(TEXTS) == {alert.name for group in GROUPS for alert in group.alerts}


def test_a_rendering_without_a_promise_has_its_runbook_which_says_how_to_ask_for_the_alert():
    usual = rule_groups(RuleOptions())
    texts = runbooks(usual)

    assert set(texts) == set(TEXTS)
    for name in set(texts) - {alert.name for group in usual for alert in group.alerts}:
        asked = re.search(r"`vllm-observe render-alerts (--[a-z-]+) N`", texts[name])
        assert name in {a.name for g in rule_groups(_asked(asked[1])) for a in g.alerts}
    assert len(TEXTS) == len({alert.name for group in usual for alert in group.alerts}) + 1


def _asked(option):
    return RuleOptions(**{option.removeprefix("--").replace("-", "_"): 100})


@pytest.mark.parametrize("name", TEXTS)
def test_a_runbook_has_its_parts_in_their_order(name):
    assert re.findall(r"^## (.*)$", TEXTS[name], re.MULTILINE) == HEADINGS
    assert len(TEXTS[name].splitlines()) <= 80
    assert len(diagnosis(TEXTS[name]).splitlines()) <= 55
    assert max(map(len, diagnosis(TEXTS[name]).splitlines())) <= 125


@pytest.mark.parametrize("name", TEXTS)
def test_queries_name_metrics_that_exist(name):
    known = {metric.name for metric in (*SIGNALS, *OWN)}
    known |= {rule.name for group in GROUPS for rule in group.rules if isinstance(rule, Recording)}
    lines = [line for block in blocks(diagnosis(TEXTS[name]), "promql") for line in block.splitlines()]

    assert lines
    for line in lines:
        for metric in re.findall(r"\b(?:vllm|up\b|process_|http_|DCGM)[\w:]*", re.sub(r'"[^"]*"', "", line)):
            base = next((metric.removesuffix(s) for s in SUFFIXES if metric.endswith(s)), metric)
            assert {metric, base} & known or FOREIGN.fullmatch(metric), f"{metric} in {line}"


def test_queries_parse(promtool, tmp_path):
    queries = {
        line: name
        for name, text in TEXTS.items()
        for block in blocks(diagnosis(text), "promql")
        for line in block.splitlines()
    }
    rules = [{"record": "parsed", "labels": {"n": str(n)}, "expr": query} for n, query in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "runbooks", "rules": rules}]}))

    done = run(promtool, "check", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", TEXTS)
def test_commands_are_commands_of_ours(name):
    commands = [line for block in blocks(TEXTS[name], "sh") for line in block.splitlines()]
    group = typer.main.get_command(app)

    for line in commands:
        program, verb, *arguments = shlex.split(line)
        assert program == "vllm-observe"
        command = group.commands[verb]
        try:
            command.make_context(verb, arguments)
        except UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")


@pytest.mark.parametrize("name", TEXTS)
def test_a_runbook_whose_commands_read_requests_says_where_from(name):
    """That these flags are taken by those commands is tried here; that they work, in tests/cli."""
    commands = [line for block in blocks(TEXTS[name], "sh") for line in block.splitlines()]
    reads = [line for line in commands if re.match(r"vllm-observe (requests|sessions|explain)\b", line)]
    said = diagnosis(TEXTS[name])

    assert ("`--store FILE`" in said) is ("`--sidecar http://HOST:9810`" in said) is bool(reads)
    group = typer.main.get_command(app)
    for line in reads:
        _, verb, *arguments = shlex.split(line)
        for flags in (["--sidecar", "http://HOST:9810"], ["--store", __file__], ["--token-file", __file__]):
            group.commands[verb].make_context(verb, [*arguments, *flags])


def test_a_runbook_names_the_sidecar_that_is_known():
    text = runbooks(GROUPS, "https://observe.example.com")["VLLMKVCacheThrashing"]
    assert "`--sidecar https://observe.example.com`" in text


def test_the_runbook_of_thrashing_says_the_threshold_that_its_rule_has():
    text = TEXTS["VLLMKVCacheThrashing"]
    said, rule = text.partition("## Impact")[0], text.partition("## Rule")[2]
    (full,) = re.findall(r"over (\d+) %", said)
    (preemptions,) = re.findall(r"more than (\d+) preemptions", said)
    assert f"> {int(full) / 100:g}\n" in rule
    assert f"> {int(preemptions) / 100:g} * " in rule


@pytest.mark.parametrize("name", TEXTS)
def test_runbooks_that_are_named_exist(name):
    named = set(re.findall(r"\bVLLM[A-Z]\w+", TEXTS[name]))

    assert named <= set(TEXTS)


def test_the_rule_stands_in_its_runbook():
    assert "- critical: after 5m, and for 2m longer" in TEXTS["VLLMSequenceSlotsExhausted"]
    assert "- warning (batch servers): after 5m" in TEXTS["VLLMTimeToFirstTokenHigh"]
    assert "- critical (interactive servers), window 1h: at once" in TEXTS["VLLMTimeToFirstTokenBudgetBurn"]
    for group in GROUPS:
        for alert in group.alerts[:1]:
            assert alert.expr in TEXTS[alert.name]
