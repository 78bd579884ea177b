"""Rule files are read with their lines, and hostile ones are refused in one line."""

from __future__ import annotations

import time

import pytest

from vllm_observe.alerts.lint import rulefiles
from vllm_observe.alerts.lint.rulefiles import read_rules
from vllm_observe.errors import ConfigError

PLAIN = """\
groups:
  - name: first
    rules:
      - alert: A
        expr: up == 0
        for: 5m
        labels: {severity: critical}
        annotations:
          summary: It is down.
      - record: b:c
        expr: |
          sum(up)
  - name: empty
"""


@pytest.fixture
def rules_of(tmp_path):
    def read(text, name="rules.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_rules([str(path)])

    return read


def test_a_rule_has_all_that_its_file_says_and_its_line(rules_of):
    alert, recording = rules_of(PLAIN)
    assert (alert.name, alert.alerts, alert.expr, alert.hold, alert.group, alert.line) == ("A", True, "up == 0", "5m", "first", 4)  # fmt: skip
    assert alert.labels == {"severity": "critical"}
    assert alert.annotations == {"summary": "It is down."}
    assert (recording.name, recording.alerts, recording.expr, recording.line) == (
        "b:c",
        False,
        "sum(up)\n",
        10,
    )


def test_objects_of_the_operator_are_read_alone_in_lists_and_among_others(rules_of):
    spec = "spec: {groups: [{name: g, rules: [{alert: A, expr: up}]}]}"
    single = f"kind: ConfigMap\ndata: {{a: b}}\n---\nkind: PrometheusRule\n{spec}\n---\n"
    assert [(rule.name, rule.line) for rule in rules_of(single)] == [("A", 5)]
    assert len(rules_of(f"kind: List\nitems: [{{kind: Pod}}, {{kind: PrometheusRule, {spec}}}]")) == 1


def test_a_comment_turns_checks_off_for_the_rule_that_it_stands_in_or_above(rules_of):
    text = (
        "groups:\n- name: g\n  rules:\n"
        "  # check-rules: disable missing-for\n  - alert: A\n    expr: up == 0\n"
        "  - alert: B\n    # check-rules: disable raw-counter, le-value\n    expr: up == 0\n"
        "  # why\n  # check-rules: disable contradiction\n  - alert: C\n    expr: |\n      # check-rules: disable syntax\n      up == 0\n"
        "  - alert: D\n    expr: up == 0\n"
    )
    assert [set(rule.disabled) for rule in rules_of(text)] == [
        {"missing-for"}, {"raw-counter", "le-value"}, {"contradiction", "syntax"}, set()
    ]  # fmt: skip


def test_folders_and_patterns_bring_the_rule_files_among_what_they_hold(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "rules.yml").write_text(PLAIN)
    (tmp_path / "alertmanager.yaml").write_text("route: {receiver: a}\n")
    (tmp_path / "notes.txt").write_text("{{{")
    assert len(read_rules([str(tmp_path)])) == 2
    assert len(read_rules([f"{tmp_path}/**/*.y*ml"])) == 2
    with pytest.raises(ConfigError, match="no rules there"):
        read_rules([f"{tmp_path}/alert*.yaml"])


def test_a_named_file_must_hold_rules(rules_of):
    with pytest.raises(ConfigError, match=r"line 1: no rule file: it has no `groups`"):
        rules_of("route: {receiver: a}\n")


_LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
_MANY = f"rules: &r [{','.join(['{alert: A, expr: up}'] * 300)}]\ngroups: [{','.join(['{name: g, rules: *r}'] * 300)}]\n"

HOSTILE = {
    "aliases of aliases": (_LAUGHS + "groups: *i\n", "a group must be a mapping"),
    "aliases for labels": (_LAUGHS + "groups: [{name: g, rules: [{alert: A, expr: up, labels: {a: *i}}]}]\n", "'a' must be a text"),
    "many rules from few lines": (_MANY, "more than 20000 rules"),
    "a list of itself": ("&a kind: List\nitems: &b [*b]\n", "no rules there"),
    "10 MB": (b"#" * 10_000_000, "larger than 4 MiB"),
    "4 MB of brackets": (b"[" * 4_000_000, "not YAML"),
    "deep flow": (b"[" * 5_000, "not YAML"),
    "deep blocks": ("\n".join(" " * depth + "a:" for depth in range(1_500)), "not YAML"),
    "not UTF-8": (b"groups: \xff\xfe", "not UTF-8"),
    "UTF-16": ("groups: []".encode("utf-16"), "not UTF-8"),
    "a null byte": (b"groups: \x00", "not YAML"),
    "an escape": (b"groups: \x1b[31m", "not YAML"),
    "a tag": ("!!python/object/apply:os.system ['true']", "no rule file"),
    "a Helm template": ("groups:\n{{- range . }}\n- name: g\n{{ end }}", "it is not YAML"),
    "empty": ("", "no rules there"),
    "nothing": ("null", "no rules there"),
    "a number": ("5", "no rule file"),
    "a list": ("- groups", "no rule file"),
    "groups that are a text": ("groups: many", "`groups` must be a list"),
    "a group that is a text": ("groups: [many]", "a group must be a mapping"),
    "rules that are a mapping": ("groups: [{name: g, rules: {alert: A}}]", "`rules` must be a list"),
    "a rule that is a text": ("groups: [{name: g, rules: [up]}]", "a rule must be a mapping"),
    "a rule without an expression": ("groups:\n- name: g\n  rules:\n  - alert: A", "line 4: a rule must be a mapping"),
    "an expression that is a list": ("groups: [{name: g, rules: [{alert: A, expr: [up]}]}]", "`expr`"),
    "a for that is a list": ("groups: [{name: g, rules: [{alert: A, expr: up, for: [5m]}]}]", "`for` must be a duration"),
    "annotations that are lists": ("groups: [{name: g, rules: [{alert: A, expr: up, annotations: {a: [b]}}]}]", "'a' must be a text"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(rules_of, name):
    text, message = HOSTILE[name]
    began = time.monotonic()
    with pytest.raises(ConfigError) as error:
        rules_of(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert time.monotonic() - began < 20


def test_what_cannot_be_opened_is_named(tmp_path):
    for name, message in ((str(tmp_path / "none.yaml"), "No such file"), ("a\0b", "its name is no path")):
        with pytest.raises(ConfigError, match=message):
            read_rules([name])


def test_aliases_merge_nothing_but_are_followed(rules_of):
    (rule,) = rules_of("x: &e up == 0\ngroups: [{name: g, rules: [{alert: A, expr: *e, for: 5}]}]")
    assert (rule.expr, rule.hold) == ("up == 0", "5")


def test_the_bound_on_a_files_size_is_far_above_real_ones():
    assert rulefiles._MAX_BYTES >= 4 * 1024 * 1024
