"""Rules as Prometheus's rule files, or as the Prometheus Operator's objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from vllm_observe.alerts.addresses import behind
from vllm_observe.alerts.alertmanager import Receivers, alertmanager_files, alertmanager_secret
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import span
from vllm_observe.alerts.proofs.files import test_files
from vllm_observe.alerts.rule import Alert, Group, Recording
from vllm_observe.alerts.rules import rule_groups
from vllm_observe.alerts.runbooks import runbooks
from vllm_observe.alerts.yaml import document
from vllm_observe.model import ServiceClass

__all__ = ["alert_files"]

_INSTANCE = "{{ $labels.instance }}"
_MODEL = "{{ $labels.model_name }}"
#: What the words in a summary's braces become: Prometheus's own templates.
_TEMPLATES = {
    "{model}": _MODEL,
    "{where}": _INSTANCE,
    "{engine}": f"{_MODEL} on {_INSTANCE}, engine {{{{ $labels.engine }}}}",
    "{percent}": "{{ $value | humanizePercentage }}",
    "{seconds}": "{{ $value | humanizeDuration }}",
    "{number}": "{{ $value | humanize }}",
    "{count}": '{{ $value | printf "%.0f" }}',  # an increase is extrapolated: 3 restarts may be 3.1
}
_WORDS = re.compile("|".join(map(re.escape, _TEMPLATES)))
#: What a board is asked to show, each where the alert has the label. All of vLLM's have a job, and those of
#: a GPU's node have none.
_ASKED = (
    ("?var-job", "job"),
    ("&var-instance", "instance"),
    ("&var-model_name", "model_name"),
    ("&var-engine", "engine"),
    ("?var-gpu_host", "Hostname"),
)
_QUERY = "".join(
    f"{{{{ with $labels.{label} }}}}{asked}={{{{ . | urlquery }}}}{{{{ end }}}}" for asked, label in _ASKED
)


def alert_files(options: RuleOptions, receivers: Receivers, *, kubernetes: bool = False) -> dict[str, str]:
    """Return all that operators take away, by its path: rules and their tests, routes, runbooks.

    Args:
        options: what the rules are made for.
        receivers: where messages go.
        kubernetes: as the Prometheus Operator takes it, in a folder of its own: rules as PrometheusRule
            objects, Alertmanager's configuration as a Secret. promtool reads no objects: there are no tests.
    """
    groups = rule_groups(options)
    pages = {f"runbooks/{name}.md": text for name, text in runbooks(groups, options.admin_url).items()}
    if kubernetes:
        return {
            **{f"kubernetes/{group.name}.yaml": document(_object(group, options)) for group in groups},
            "kubernetes/alertmanager.yaml": document(alertmanager_secret(receivers)),
            **pages,
        }
    return {
        **{f"rules/{group.name}.yaml": document(_file(group, options)) for group in groups},
        **pages,
        # The proofs are made for the usual promises: with others a threshold lies elsewhere.
        **({f"tests/{name}": text for name, text in test_files(options).items()} if options.usual else {}),
        **alertmanager_files(receivers),
    }


def _file(group: Group, options: RuleOptions) -> dict[str, Any]:
    return {"groups": [_group(group, options)]}


def _object(group: Group, options: RuleOptions) -> dict[str, Any]:
    """The same as the Prometheus Operator takes it."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": f"vllm-observe-{group.name}",
            "labels": {"app.kubernetes.io/name": "vllm-observe"},
        },
        "spec": _file(group, options),
    }


def _group(group: Group, options: RuleOptions) -> dict[str, Any]:
    return {"name": f"vllm-observe-{group.name}", "rules": [_rule(rule, options) for rule in group.rules]}


def _rule(rule: Alert | Recording, options: RuleOptions) -> dict[str, Any]:
    if isinstance(rule, Recording):
        labels = {"labels": dict(rule.labels)} if rule.labels else {}
        return {"record": rule.name, "expr": rule.expr, **labels}
    timing = {"for": rule.hold, "keep_firing_for": rule.keep_firing}
    return {
        "alert": rule.name,
        "expr": rule.expr,
        **{key: span(seconds) for key, seconds in timing.items() if seconds},
        "labels": {
            "severity": rule.severity.value,
            "service_class": _service_class(rule, options),
            **dict(rule.labels),
        },
        "annotations": _annotations(rule, options),
    }


def _service_class(rule: Alert, options: RuleOptions) -> str:
    """The class of the server that fires: told by its sidecar, if need be a while ago."""
    if rule.service_class is not None:
        return rule.service_class.value
    otherwise = options.service_class.value
    if not options.behind_sidecar:
        return otherwise
    # Asked by the template, and not joined to the expression: a class that is not known must never
    # keep an alert from firing. Alerts about a service have no instance: any server of its job tells, and
    # among several one whose users wait, or else a batch job beside them would keep the pager silent.
    # %q quotes names as they are: an address such as [::1]:9809 is no pattern.
    # A label that an alert lacks its servers lack too: cluster="" selects those.
    info = "vllm_observe_target_info{cluster=%[1]q,namespace=%[2]q,job=%[3]q%[4]s}"
    waited_for = f'{info.removesuffix("}")},service_class="{ServiceClass.INTERACTIVE.value}"}}'
    return (
        "{{ $where := `` }}{{ with $labels.instance }}{{ $where = printf `,instance=%q` . }}{{ end }}"
        f"{{{{ with printf `{waited_for} or on () {info} or on () last_over_time({info}[7d])`"
        " $labels.cluster $labels.namespace $labels.job $where | query }}"
        f"{{{{ . | first | label `service_class` }}}}{{{{ else }}}}{otherwise}{{{{ end }}}}"
    )


def _annotations(rule: Alert, options: RuleOptions) -> Mapping[str, str]:
    return {
        "summary": _worded(rule.summary),
        "description": _worded(rule.description),
        "runbook_url": behind(options.runbook_url, f"/{rule.name}.md"),
        "dashboard_url": _board(rule, options),
        **({"explain": _explain(rule, options)} if rule.requests and options.behind_sidecar else {}),
    }


def _board(rule: Alert, options: RuleOptions) -> str:
    board = behind(options.dashboard_url, f"/d/vllm-observe-{rule.board.value}")
    return board + (_QUERY.replace("?", "&") if "?" in board else _QUERY)


def _explain(rule: Alert, options: RuleOptions) -> str:
    """Where the requests concerned are listed: on the sidecar's page, or else by a command."""
    asked = (("since", "15m"), *rule.requests)
    if options.admin_url:
        return f"{options.admin_url}/api/v1/requests?{urlencode(asked)}"
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in asked)
    return f"vllm-observe requests {flags}"


def _worded(text: str) -> str:
    return _WORDS.sub(lambda match: _TEMPLATES[match[0]], text)
