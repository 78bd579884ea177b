"""Runbooks, one an alert: what it means, whom it hurts, where to look, what to turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template

from vllm_observe import thresholds
from vllm_observe.alerts.promql import span
from vllm_observe.alerts.rule import Alert, Group

__all__ = ["runbooks"]

_HEADER = "<!-- Rendered by `vllm-observe render-alerts`. Change it there. -->"
#: Of more rules than that under one name the first is shown.
_SHOWN = 2
#: Alerts that are there only where an option asks for them. Their runbooks are always: this project's folder
#: serves every rendering.
_ASKED_FOR = {"VLLMThroughputBelowTarget": "--tokens-per-second N"}
#: Commands that read what requests a sidecar has seen.
_READS = re.compile(r"^vllm-observe (?:requests|sessions|explain)\b", re.MULTILINE)
_NEXT = "\n## Mitigation\n"
#: Numbers that a text names, by the words that stand for them there.
_NUMBERS = {
    "kv_full": f"{thresholds.KV_FULL:.0%}".replace("%", " %"),
    "preemptions_high": f"{100 * thresholds.PREEMPTIONS_HIGH:g}",
}


def runbooks(groups: Iterable[Group], admin_url: str = "") -> dict[str, str]:
    """Return the runbook of each alert of some groups, and of those they may have, in Markdown, by its name.

    What a person wrote stands in this package; the rules are added as they are rendered, and where commands
    read from: ``admin_url`` is where people reach a sidecar's admin listener, where that is known.
    """
    rules: dict[str, list[Alert]] = {}
    for group in groups:
        for alert in group.alerts:
            rules.setdefault(alert.name, []).append(alert)
    return {
        name: f"{_HEADER}\n\n# {name}\n\n{_written(name, admin_url)}\n## Rule\n\n{rule}\n"
        for name, rule in {
            **{name: _absent(option) for name, option in _ASKED_FOR.items()},
            **{name: _rule(alerts) for name, alerts in rules.items()},
        }.items()
    }


def _written(name: str, admin_url: str) -> str:
    text = Template(files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8"))
    before, heading, after = text.substitute(_NUMBERS).partition(_NEXT)
    return before + (_where(admin_url) if _READS.search(before) else "") + heading + after


def _where(admin_url: str) -> str:
    return (
        "\n`vllm-observe` asks the sidecar of the machine that it runs on. From elsewhere add\n"
        f"`--sidecar {admin_url or 'http://HOST:9810'}` (its `admin_listen`; `--token-file` where it wants a token).\n"
        "Where it is down, ask its `store`: `requests`, `sessions` and `explain` take `--store FILE`.\n"
    )


def _absent(option: str) -> str:
    return f"There is one where `vllm-observe render-alerts {option}` asks for it."


def _rule(alerts: Sequence[Alert]) -> str:
    told = "\n".join(f"- {_when(alert)}" for alert in alerts)
    shown = "\n\n".join(f"```promql\n{alert.expr}\n```" for alert in alerts[:_SHOWN])
    more = "\n\nThe others differ in their windows, their classes and what they compare with."
    return f"{told}\n\n{shown}{more if len(alerts) > _SHOWN else ''}"


def _when(alert: Alert) -> str:
    whose = f" ({alert.service_class.value} servers)" if alert.service_class else ""
    labels = "".join(f", {label} {value}" for label, value in alert.labels)
    hold = f"after {span(alert.hold)}" if alert.hold else "at once"
    goes_on = f", and for {span(alert.keep_firing)} longer" if alert.keep_firing else ""
    return f"{alert.severity.value}{whose}{labels}: {hold}{goes_on}"
