"""Who is told what: Alertmanager's routing tree, its inhibitions and the words of a message.

Critical alerts of interactive servers page. Those of batch servers, and all warnings, go to the chat: a
job that is late waits for the morning. Infos are kept in Alertmanager alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from vllm_observe.alerts.addresses import behind
from vllm_observe.alerts.rule import Severity
from vllm_observe.alerts.yaml import document
from vllm_observe.model import ServiceClass

__all__ = ["Receivers", "alertmanager_files", "alertmanager_secret"]

_TEMPLATE_FILE = "vllm-observe.tmpl"
#: Where the Prometheus Operator puts what stands beside the configuration in its Secret, and the other
#: Secrets that an Alertmanager object names: each in a folder of its name.
_BESIDE, _MOUNTED = "/etc/alertmanager/config", "/etc/alertmanager/secrets"
_KEYS = "vllm-observe-receivers"
_JOB = ["cluster", "namespace", "job"]
_SERVER = [*_JOB, "instance"]
_ENGINE = [*_SERVER, "model_name", "engine"]

#: What an alert mutes, where all these labels are equal: the consequences of what it tells.
_MUTES: tuple[tuple[str, str, list[str]], ...] = (
    ("VLLMTargetDown", "VLLM.*", _SERVER),
    ("VLLMObserveDown", "VLLM.*", _SERVER),
    # An error rate is a service's: it has no instance.
    ("VLLMAnswersWithoutTokens", "VLLMRequestErrorsHigh", _JOB),
    # What a dead engine had to do when it died stands in its gauges for good, as a hung one's does.
    ("VLLMAnswersWithoutTokens", "VLLMEngineStalled|VLLMThroughputCollapse", _SERVER),
    # A hung engine's gauges stand still, however full it was.
    (
        "VLLMEngineStalled",
        "VLLMKVCache.*|VLLMSequenceSlots.*|VLLMQueueTimeHigh|VLLMThroughputCollapse",
        _ENGINE,
    ),
    ("VLLMSequenceSlotsExhausted", "VLLMSequenceSlotsNearLimit", _ENGINE),
    ("VLLMKVCacheThrashing", "VLLMKVCacheNearFull", _ENGINE),
)


@dataclass(frozen=True, kw_only=True)
class Receivers:
    """Where messages go. Secrets are read from files that are named here, never from the configuration.

    Attributes:
        pager_key_file: holds PagerDuty's integration key.
        chat_url_file: holds the address of a Slack webhook.
        webhook_url: in place of both, the address of a receiver of your own; ``/pager`` or ``/chat`` is
            put behind its path. It is written as it is: no secret may be in it.
    """

    pager_key_file: str = "/etc/alertmanager/secrets/pagerduty-key"
    chat_url_file: str = "/etc/alertmanager/secrets/slack-url"
    webhook_url: str | None = None


def alertmanager_files(receivers: Receivers) -> dict[str, str]:
    """Return Alertmanager's configuration and its template, by their files' names."""
    return {
        "alertmanager.yml": document(_configuration(receivers, _TEMPLATE_FILE)),
        _TEMPLATE_FILE: _TEMPLATE,
    }


def alertmanager_secret(receivers: Receivers) -> dict[str, Any]:
    """Return the same as the Secret that an Alertmanager object of the Prometheus Operator takes as its ``configSecret``."""
    mounted = replace(
        receivers,
        pager_key_file=f"{_MOUNTED}/{_KEYS}/{PurePosixPath(receivers.pager_key_file).name}",
        chat_url_file=f"{_MOUNTED}/{_KEYS}/{PurePosixPath(receivers.chat_url_file).name}",
    )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "vllm-observe-alertmanager",
            "labels": {"app.kubernetes.io/name": "vllm-observe"},
        },
        "stringData": {
            "alertmanager.yaml": document(_configuration(mounted, f"{_BESIDE}/*.tmpl")),
            _TEMPLATE_FILE: _TEMPLATE,
        },
    }


def _configuration(receivers: Receivers, templates: str) -> dict[str, Any]:
    return {
        "route": _tree(),
        "inhibit_rules": [*map(_inhibition, _MUTES), _SAME_ALERT_IS_WORSE],
        "receivers": _receivers(receivers),
        "templates": [templates],
    }


def _tree() -> dict[str, Any]:
    return {
        "receiver": "chat",
        "group_by": ["alertname", "model_name"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "12h",
        "routes": [
            {
                "matchers": [
                    f'severity="{Severity.CRITICAL.value}"',
                    f'service_class!="{ServiceClass.BATCH.value}"',
                ],
                "receiver": "pager",
                "group_wait": "10s",
                "repeat_interval": "1h",
            },
            {
                "matchers": [f'severity="{Severity.CRITICAL.value}"'],
                "receiver": "chat",
                "repeat_interval": "4h",
            },
            {"matchers": [f'severity="{Severity.INFO.value}"'], "receiver": "nobody"},
        ],
    }


def _inhibition(mute: tuple[str, str, list[str]]) -> dict[str, Any]:
    source, targets, equal = mute
    return {
        "source_matchers": [f'alertname="{source}"'],
        "target_matchers": [f'alertname=~"{targets}"', f'alertname!="{source}"'],
        "equal": list(
            equal
        ),  # one of its own: of a list that stands twice YAML writes the second as an anchor
    }


_SAME_ALERT_IS_WORSE = {
    "source_matchers": [f'severity="{Severity.CRITICAL.value}"'],
    "target_matchers": [f'severity="{Severity.WARNING.value}"'],
    "equal": ["alertname", *_ENGINE, "service_class"],
}


def _receivers(receivers: Receivers) -> list[dict[str, Any]]:
    nobody: dict[str, Any] = {"name": "nobody"}
    if receivers.webhook_url is not None:
        return [
            *(
                {"name": name, "webhook_configs": [{"url": behind(receivers.webhook_url, f"/{name}")}]}
                for name in ("pager", "chat")
            ),
            nobody,
        ]
    title, text = '{{ template "vllm_observe.title" . }}', '{{ template "vllm_observe.text" . }}'
    pager = {
        "routing_key_file": receivers.pager_key_file,
        "description": title,
        "details": {"text": text},
        "send_resolved": True,
    }
    chat = {
        "api_url_file": receivers.chat_url_file,
        "title": title,
        "text": text,
        "send_resolved": True,
    }
    return [
        {"name": "pager", "pagerduty_configs": [pager]},
        {"name": "chat", "slack_configs": [chat]},
        nobody,
    ]


# A chat shows some 40 lines: the first alerts of a group say what there is to know, the board the rest. A
# message holds what fires and what has resolved since the last one, whose words are true no longer.
_TEMPLATE = """\
{{- /* Rendered by `vllm-observe render-alerts`. Change it there. */ -}}
{{ define "vllm_observe.title" -}}
{{ if not .Alerts.Firing }}resolved: {{ end }}{{ .CommonLabels.alertname }}
{{- with .CommonLabels.model_name }} on {{ . }}{{ end }}
{{- if and .Alerts.Firing .Alerts.Resolved }} ({{ len .Alerts.Firing }} firing, {{ len .Alerts.Resolved }} resolved)
{{- else if gt (len .Alerts) 1 }} ({{ len .Alerts }}){{ end }}
{{- end }}
{{ define "vllm_observe.text" -}}
{{ range $number, $alert := .Alerts.Firing }}{{ if lt $number 5 -}}
{{ .Annotations.summary }}
{{ end }}{{ end -}}
{{ if gt (len .Alerts.Firing) 5 }}and others, all of them on the board
{{ end -}}
{{ range $number, $alert := .Alerts.Firing }}{{ if eq $number 0 -}}
{{ with .Annotations.description }}{{ . }}
{{ end }}{{ with .Annotations.runbook_url }}runbook: {{ . }}
{{ end }}{{ with .Annotations.dashboard_url }}board: {{ . }}
{{ end }}{{ with .Annotations.explain }}which requests: {{ . }}
{{ end }}{{ end }}{{ end -}}
{{ range $number, $alert := .Alerts.Resolved }}{{ if lt $number 3 -}}
resolved: {{ .Annotations.summary }}
{{ end }}{{ end -}}
{{ if gt (len .Alerts.Resolved) 3 }}and others are resolved
{{ end -}}
{{ if not .Alerts.Firing }}{{ with index .Alerts 0 }}{{ with .Annotations.dashboard_url }}board: {{ . }}
{{ end }}{{ end }}{{ end -}}
{{ end }}
"""
