"""Matchers and groupings with a label that the metric does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import Aggregation, Matcher, Selector, walk
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.matching import accepts
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, listed, near
from vllm_observe.alerts.lint.tables import EXPOSED_LABELS
from vllm_observe.alerts.lint.vocabulary import Metric

__all__ = ["CHECK"]

#: What other servers and exporters call the same.
_MEANT = {
    "model": "model_name",
    "model_id": "model_name",
    "finish_reason": "finished_reason",
    "status_code": "status",
    "code": "status",
    "path": "handler",
    "endpoint": "handler",
    "dp_rank": "engine",
    "engine_index": "engine",
    "engine_id": "engine",
    **dict.fromkeys(("success", "error", "failed", "result", "finish", "stop_reason"), "finished_reason"),
}
#: What a scrape configuration puts on targets, however near to a metric's own labels.
_TARGETS = frozenset({"job", "instance", "pod", "namespace", "cluster", "node", "container", "service"})
#: What one has from a scrape configuration as well, or from relabelling.
_CUSTOMARY = _TARGETS | frozenset(
    {"app", "component", "release", "deployment", "workload", "replica", "shard", "role", "group", "pool"}
    | {
        "host",
        "hostname",
        "region",
        "zone",
        "datacenter",
        "dc",
        "site",
        "env",
        "environment",
        "tier",
        "stage",
    }
    | {
        "kind",
        "mode",
        "source",
        "version",
        "team",
        "owner",
        "project",
        "tenant",
        "customer",
        "gpu",
        "endpoint",
        "prometheus",
        "provider",
    }
)
_FROM_TARGETS = re.compile(r"(?:exported|kubernetes|label|app|node|pod|service|k8s)_.*|.*_(?:name|id)")


def _run(subject: Subject) -> Iterator[Finding]:
    context = subject.context
    told: set[Finding] = set()
    for part, _ in walk(subject.expression):
        found: Iterator[Finding] = iter(())
        if isinstance(part, Selector) and (metric := context.metric(part.name)) is not None:
            found = _in_matchers(part, metric)
        elif isinstance(part, Aggregation) and not part.without:
            found = _in_grouping(part, context)
        for finding in found:
            if finding not in told:
                told.add(finding)
                yield finding


def _in_matchers(selector: Selector, metric: Metric) -> Iterator[Finding]:
    if metric.labels is None:
        return
    for matcher in selector.matchers:
        if matcher.label in metric.labels or matcher.label.startswith("__"):
            continue
        always = accepts(matcher, "") is not False
        # To ask for a label's absence, as in reason="", is no mistake.
        if not always or (matcher.operator in {"!=", "!~"} and matcher.value):
            yield from _judge(matcher, selector, metric.labels, always=always)


def _judge(
    matcher: Matcher, selector: Selector, labels: frozenset[str], *, always: bool
) -> Iterator[Finding]:
    effect = "so this always holds" if always else "so this never holds"
    meant = _meant(matcher.label, labels)
    if matcher.label in EXPOSED_LABELS:
        has = f"it has {listed(labels)}" if labels else "it has none of its own"
        level = Level.WARNING if always else Level.ERROR
        yield Finding(level, f"{selector.name} has no label {matcher.label}, {effect}: {has}")
    elif meant:
        yield Finding(
            Level.WARNING,
            f"{selector.name} has no label {matcher.label} of its own, {effect}: did you mean {meant}?",
        )
    elif matcher.label not in _CUSTOMARY and not _FROM_TARGETS.fullmatch(matcher.label):
        yield Finding(
            Level.INFO,
            f"{selector.name} has no label {matcher.label} of its own: {matcher} needs one that the scrape "
            "configuration adds",
        )


def _in_grouping(aggregation: Aggregation, context: Context) -> Iterator[Finding]:
    inner = labels_of(aggregation.of, context)
    for label in aggregation.labels:
        if label in EXPOSED_LABELS and not inner.possible(label):
            if label != "le":  # histogram_quantile's own check knows better
                yield Finding(
                    Level.WARNING, f"by ({label}) groups by a label that is not there: leave it out"
                )
        elif (meant := _meant(label, inner.certain)) and label not in inner.certain:
            yield Finding(
                Level.WARNING,
                f"by ({label}) groups by a label that vLLM does not have: did you mean {meant}?",
            )


def _meant(label: str, known: frozenset[str]) -> str | None:
    if label in _TARGETS:
        return None
    meant = _MEANT.get(label)
    return meant if meant in known else near(label, known, cutoff=0.8)


CHECK = Check("unknown-label", "A matcher or a grouping names a label that the metric does not have.", _run)
