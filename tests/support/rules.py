"""The alerting rules as files, in the form for sidecars and in the form for a vLLM alone."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vllm_observe.alerts.alertmanager import Receivers
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import Scope
from vllm_observe.alerts.proofs.files import test_files
from vllm_observe.alerts.proofs.latency import PROMISED
from vllm_observe.alerts.render import alert_files
from vllm_observe.alerts.rule import Group
from vllm_observe.alerts.rules import rule_groups

#: What may be rendered, by a name.
FORMS: Mapping[str, RuleOptions] = {
    "sidecar": RuleOptions(),
    "plain": RuleOptions(max_num_seqs=8, scope=Scope('job="vllm"')),
}
#: With every rule that has to be asked for.
PROMISED_FORM = RuleOptions(tokens_per_second=PROMISED)


@dataclass(frozen=True)
class Rendered:
    """Rules in a folder: ``rules/GROUP.yaml`` and ``tests/NAME.yaml``."""

    folder: Path
    options: RuleOptions

    @property
    def groups(self) -> tuple[Group, ...]:
        return rule_groups(self.options)

    @property
    def files(self) -> list[Path]:
        return sorted((self.folder / "rules").glob("*.yaml"))

    @property
    def tests(self) -> list[Path]:
        return sorted((self.folder / "tests").glob("*.yaml"))


def rendered(form: str | RuleOptions, folder: Path) -> Rendered:
    """Write the rules of a form, and their unit tests, into a folder."""
    options = FORMS[form] if isinstance(form, str) else form
    files = alert_files(options, Receivers())
    write(folder, {**files, **{f"tests/{name}": text for name, text in test_files(options).items()}})
    return Rendered(folder, options)


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by their paths within a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def alerts_of(text: str) -> list[dict[str, Any]]:
    """The alerting rules of a rule file, as they stand there."""
    groups = yaml.safe_load(text)["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
