"""The table of all alerts, as a page of the documentation."""

from __future__ import annotations

from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import Scope, span
from vllm_observe.alerts.releases import able
from vllm_observe.alerts.rule import Alert, Group
from vllm_observe.alerts.rules import rule_groups
from vllm_observe.signals import OLDEST

__all__ = ["page"]

_HEAD = """# Alerts

<!-- Written by scripts/render_docs.py from vllm_observe/alerts. Change it there. -->

Rendered in [alerts/](../alerts/README.md), which says how to install them. A name may have several rules:
each has a line here. *For* is how long the condition holds before it fires; the runbook of each has its
expression, what it means and what to turn.

`critical` of an interactive server pages; of a batch server it goes to the chat, as every `warning` does;
`info` is only kept. What follows from another alert is muted by it: a server that is down mutes its
others, exhausted slots mute nearly exhausted ones, a stalled engine what its frozen gauges say.

A message is about one alert of one model. It names what fires now, at most five, and says of the first what
to do and where to look; then what has resolved since the last message, at most three. Once nothing fires
any more it says so, and leaves what was to do out.
"""
_ON_DEMAND = """
`render-alerts --tokens-per-second N` adds [`VLLMThroughputBelowTarget`](../alerts/runbooks/VLLMThroughputBelowTarget.md):
fewer generated tokens a second than that while requests wait.
"""
_RELEASES = f"""
## Releases of vLLM

An alert cannot fire with a release that does not expose what it reads, nor without the option that makes
vLLM do so. All that are not named here can from {OLDEST} on. A sidecar gives today's names to what older
releases call otherwise; on vLLM's own page (`--max-num-seqs N`) an alert waits for the release with today's.

| alert | behind a sidecar | on vLLM's own page | vLLM needs |
| --- | --- | --- | --- |
"""
_TITLES = {
    "availability": "Servers that do not serve, requests that fail",
    "capacity": "Slots, KV cache, queue",
    "latency": "What a reader waits for",
    "service-levels": "Error budgets",
    "efficiency": "What is wasted",
    "observer": "The sidecar itself",
    "gpu": "GPUs, through DCGM's exporter",
}
_FILLED = {
    "{engine}": "MODEL on SERVER, engine N",
    "{model}": "MODEL",
    "{where}": "SERVER",
    "{percent}": "N %",
    "{seconds}": "N s",
    "{number}": "N",
    "{count}": "N",
    "{{ $labels.reason }}": "REASON",
    "{{ $labels.job }}": "JOB",
    "{{ $labels.gpu }}": "N",
    "{{ $labels.Hostname }}": "NODE",
}


def page() -> str:
    """Return the page, in Markdown."""
    return _HEAD + "".join(map(_section, rule_groups(RuleOptions()))) + _ON_DEMAND + _releases()


def _releases() -> str:
    plain = RuleOptions(max_num_seqs=1, scope=Scope('job="vllm"'))
    on_page = {found.alert: found for found in able(rule_groups(plain), behind_sidecar=False)}
    rows = ""
    for found in able(rule_groups(RuleOptions()), behind_sidecar=True):
        itself = on_page.get(found.alert)
        if found.needs or {found.since, itself.since if itself else OLDEST} != {OLDEST}:
            own = _since(itself.since) if itself else "no such alert"
            rows += f"| {_link(found.alert)} | {_since(found.since)} | {own} | {', '.join(found.needs)} |\n"
    return _RELEASES + rows


def _since(release: str) -> str:
    return "all" if release == OLDEST else f"since {release}"


def _link(alert: str) -> str:
    return f"[`{alert}`](../alerts/runbooks/{alert}.md)"


def _section(group: Group) -> str:
    rows = "".join(map(_row, group.alerts))
    return (
        f"\n## {_TITLES[group.name]}\n\n| alert | says | severity | for |\n| --- | --- | --- | --- |\n{rows}"
    )


def _row(alert: Alert) -> str:
    says = alert.summary
    for word, example in _FILLED.items():
        says = says.replace(word, example)
    whose = f" ({alert.service_class.value})" if alert.service_class else ""
    hold = span(alert.hold) if alert.hold else "at once"
    return f"| {_link(alert.name)} | {says} | {alert.severity.value}{whose} | {hold} |\n"
