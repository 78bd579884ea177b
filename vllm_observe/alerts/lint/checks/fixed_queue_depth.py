"""Queues compared with a fixed number, which is much for one server and little for another."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import comparisons, selectors
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.signals import BY_KEY

__all__ = ["CHECK"]

_WAITING = frozenset(BY_KEY[key].name for key in ("waiting", "waiting_by_reason"))


def _run(subject: Subject) -> Iterator[Finding]:
    for comparison in comparisons(subject.expression):
        metrics = [subject.context.metric(part.name) for part in selectors(comparison.of)]
        families = {metric.family if metric else "" for metric in metrics}
        if comparison.operator in {">", ">="} and comparison.bound >= 2 and families and families <= _WAITING:  # noqa: PLR2004  # 1 asks whether any waits
            yield Finding(
                Level.INFO,
                f"{comparison.operator} {comparison.bound:g} waiting requests is twice the batch of a small server "
                "and nothing for a large one: compare the time in the queue, or with max_num_seqs",
            )


CHECK = Check("fixed-queue-depth", "A queue is compared with a fixed number of requests.", _run)
