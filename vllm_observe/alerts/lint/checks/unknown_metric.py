"""Selectors that match nothing: their metric does not exist, or not by that name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import Binary, Expression, Selector, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject, near
from vllm_observe.alerts.lint.tables import is_ours, today
from vllm_observe.alerts.lint.vocabulary import PARTS, Metric
from vllm_observe.signals import PREFIXES, Signal

__all__ = ["CHECK"]

#: What Prometheus makes itself, for any target.
_OF_PROMETHEUS = re.compile("up|ALERTS|ALERTS_FOR_STATE|scrape_.*")
#: The names of exporters that often stand beside vLLM.
_OF_OTHERS = re.compile(
    "(?:DCGM|nvidia|amd|habana|node|kube|kubelet|container|machine|process|python|go|probe|prometheus|"
    "alertmanager|litellm|nginx|envoy|istio|ray|keda|controller|workqueue|apiserver|drm)_.*"
)


def _run(subject: Subject) -> Iterator[Finding]:
    context = subject.context
    told: set[str] = set()
    for part, above in walk(subject.expression):
        if not isinstance(part, Selector) or part.name in told or _is_there(part.name, context):
            continue
        told.add(part.name)
        metric = context.vocabulary.get(part.name)
        if metric is not None:
            yield _bare(metric)
        else:
            yield _missing(part.name, context, has_other=_has_other(above, part, context))


def _is_there(name: str, context: Context) -> bool:
    metric = context.vocabulary.get(name)
    made = not name or name in context.recordings or _OF_PROMETHEUS.fullmatch(name) is not None
    return made or (metric is not None and not metric.bare)


def _bare(metric: Metric) -> Finding:
    return Finding(
        Level.ERROR,
        f"{metric.name} is a histogram and has no series of that name: ask "
        f"{', '.join(f'{metric.name}_{part}' for part in PARTS)}",
    )


def _has_other(above: tuple[Expression, ...], selector: Selector, context: Context) -> bool:
    """Whether an ``or`` offers another metric in its place, as rules for several releases do."""
    inner: Expression = selector
    for outer in reversed(above):
        if isinstance(outer, Binary) and outer.operator == "or":
            other = outer.right if inner is outer.left else outer.left
            names = [part.name for part, _ in walk(other) if isinstance(part, Selector)]
            if names and all(_is_there(name, context) for name in names):
                return True
        inner = outer
    return False


def _missing(name: str, context: Context, *, has_other: bool) -> Finding:
    if _OF_OTHERS.fullmatch(name) and not name.startswith(PREFIXES):
        return Finding(Level.INFO, f"{name} is another exporter's: nothing here can check it")
    known = today(name)
    if known is not None:
        found = _of_vllm(name, *known, context)
        return Finding(Level.INFO, found.message) if has_other else found
    return _of_ours(name, context) if is_ours(name) else _unheard_of(name, context)


def _of_vllm(name: str, signal: Signal, part: str, context: Context) -> Finding:
    now = f"{signal.name}_{part}" if part else signal.name
    since = f"from {signal.first}" + (f" to {signal.last}" if signal.last else " on")
    if context.vocabulary.get(now) is not None:
        respelled = _rest(name) == _rest(now)
        says = (
            f"not how it is spelled: write {now}; where something on the way rewrites it, give that page"
            if respelled
            else f"{now} since vLLM {signal.first}: write that"
        )
        return Finding(Level.ERROR, f"{name} is {says}")
    exposed = [old for old in signal.names if context.vocabulary.get(f"{old}_{part}" if part else old)]
    if exposed:
        return Finding(
            Level.ERROR,
            f"{name} is not there, but {exposed[0]}, its name before {signal.first}: scrape a sidecar, or ask both with `or`",
        )
    if signal.gate:
        return Finding(Level.INFO, f"{name} exists only with {signal.gate}")
    if signal.last is not None:
        return Finding(Level.ERROR, f"vLLM exposed {name} {since}; no metric took its place")
    if context.vocabulary.pages and not name.startswith(PREFIXES):
        return Finding(Level.INFO, f"{name} is on no page given: it comes with the first HTTP request")
    where = "on no page given" if context.vocabulary.pages else "not of that release"
    return Finding(Level.ERROR, f"{name} is {where}: vLLM exposes it {since}")


def _rest(name: str) -> str:
    """A name without what vLLM or a wrapper puts before it."""
    return name.removeprefix(next(filter(name.startswith, PREFIXES), ""))


def _of_ours(name: str, context: Context) -> Finding:
    if any(known.startswith("vllm_observe_") for known in context.vocabulary.metrics):
        return Finding(Level.INFO, f"{name} is on no page given: a sidecar exposes it while it knows it")
    return Finding(Level.ERROR, f"{name} is the sidecar's, and no page given is a sidecar's: scrape one")


def _unheard_of(name: str, context: Context) -> Finding:
    known = context.vocabulary.metrics
    ours = name.startswith(PREFIXES)
    for ending in ("_total", *(f"_{part}" for part in PARTS)):
        for other in (name + ending, name.removesuffix(ending)):
            if other != name and (metric := known.get(other)) is not None and not metric.bare:
                return Finding(Level.ERROR, f"{name} does not exist: write {other}")
    if ":" in name and not ours:
        return Finding(Level.INFO, f"{name} is recorded in no file given: name that file too")
    meant = near(name, known, cutoff=0.85)
    hint = f": did you mean {meant}?" if meant else ""
    if ours:
        return Finding(Level.ERROR, f"{name} does not exist{hint or ' in any release of vLLM from 0.6.6 on'}")
    if meant:  # or it is another program's that calls its own alike
        return Finding(Level.WARNING, f"{name} is not known{hint}")
    if context.vocabulary.pages:
        return Finding(Level.WARNING, f"{name} is on no page given: add its exporter's with --exposition")
    return Finding(Level.INFO, f"{name} is no metric of vLLM: give its exporter's page with --exposition")


CHECK = Check(
    "unknown-metric", "A selector asks for a metric that does not exist, or not by that name.", _run
)
