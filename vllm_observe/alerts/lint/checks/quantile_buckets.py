"""Quantiles of what is no set of buckets."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.context import Context
from vllm_observe.alerts.lint.expression import Call, constant, selectors, walk
from vllm_observe.alerts.lint.labels import labels_of
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject
from vllm_observe.alerts.lint.vocabulary import Metric

__all__ = ["CHECK"]


def _run(subject: Subject) -> Iterator[Finding]:
    for part, _ in walk(subject.expression):
        if isinstance(part, Call) and part.function == "histogram_quantile":
            yield from _judge(part, subject)


def _judge(call: Call, subject: Subject) -> Iterator[Finding]:
    share, buckets = call.arguments
    wanted = constant(share)
    if wanted is not None and not 0 <= wanted <= 1:
        yield Finding(
            Level.ERROR, f"the quantile {wanted:g} is infinite: write {wanted / 100:g}, from 0 to 1"
        )
    context = subject.context
    found = [(part.name, context.metric(part.name)) for part in selectors(buckets)]
    wrong = [
        name for name, metric in found if metric is not None and metric.part != "bucket" and not metric.bare
    ]
    if wrong and len(wrong) == len(found):
        yield Finding(Level.ERROR, f"{wrong[0]} has no buckets: take the quantile of a histogram's _bucket")
    elif not _may_be_native(found, context) and not labels_of(buckets, context).possible("le"):
        yield Finding(Level.ERROR, "the buckets lost their le: keep it, as in sum by (le, model_name) (…)")


def _may_be_native(found: list[tuple[str, Metric | None]], context: Context) -> bool:
    """Whether something is asked of which nothing is known: a native histogram has no `le` to keep."""
    return any(
        metric is None and name not in context.recordings and not name.endswith("_bucket")
        for name, metric in found
    )


CHECK = Check(
    "quantile-buckets", "histogram_quantile lacks `le`, or gets no buckets, or no share from 0 to 1.", _run
)
