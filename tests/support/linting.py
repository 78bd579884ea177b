"""Rules for the linter: one from its expression, and whole files of our own."""

from __future__ import annotations

from pathlib import Path

from vllm_observe.alerts.alertmanager import Receivers
from vllm_observe.alerts.lint.linter import lint
from vllm_observe.alerts.lint.pages import of_pages
from vllm_observe.alerts.lint.problem import Problem
from vllm_observe.alerts.lint.rulefiles import Rule
from vllm_observe.alerts.lint.tables import of_release
from vllm_observe.alerts.lint.vocabulary import Vocabulary
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import Scope
from vllm_observe.alerts.render import alert_files
from vllm_observe.engine.exposition import ExpositionParser

TESTS = Path(__file__).resolve().parents[1]
#: A vLLM's own page, and the same as its sidecar passes it on.
PLAIN = TESTS / "data" / "captures" / "vllm-0.32.0" / "saturated.prom"
SIDECAR = TESTS / "golden" / "exporter" / "vllm-0.32.0-saturated.prom.om"

BEHIND_SIDECAR = RuleOptions()
ON_VLLM = RuleOptions(max_num_seqs=8, scope=Scope('job="vllm"'))


def vocabulary_of(*pages: Path) -> Vocabulary:
    return of_pages(ExpositionParser().parse(page.read_bytes(), None) for page in pages)


def an_alert(expr: str, **fields: object) -> Rule:
    """An alert about which nothing is wrong but its expression."""
    whole = {
        "file": "rules.yaml",
        "line": 1,
        "group": "group",
        "name": "Alert",
        "alerts": True,
        "hold": "5m",
        "labels": {},
        "annotations": {"summary": "It is so.", "runbook_url": "https://example.com"},
        "disabled": frozenset(),
    }
    return Rule(**(whole | {"expr": expr} | fields))


def a_recording(name: str, expr: str) -> Rule:
    return an_alert(expr, name=name, alerts=False)


def found(
    *rules: str | Rule, page: Path | None = None, version: str | None = None, **options
) -> list[Problem]:
    """What the linter says of rules, against a page or a release's names."""
    vocabulary = vocabulary_of(page) if page else of_release(version) if version else of_release()
    return lint([an_alert(rule) if isinstance(rule, str) else rule for rule in rules], vocabulary, **options)


def rendered(folder: Path, options: RuleOptions) -> Path:
    """Write our own rules into a folder."""
    for name, text in alert_files(options, Receivers()).items():
        if name.startswith("rules/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    return folder / "rules"
