"""What several boards ask alike."""

from __future__ import annotations

from vllm_observe.dashboards.metrics import Metric, own, vllm
from vllm_observe.dashboards.panels import Colour, Query
from vllm_observe.dashboards.queries import (
    ENGINE,
    SERVER,
    Expr,
    calculate,
    max_by,
    otherwise,
    quantile,
    rate,
    ratio,
    select,
    sum_by,
    top,
)
from vllm_observe.model import ServiceClass
from vllm_observe.thresholds import TARGETS

__all__ = [
    "ALL",
    "BY_ENGINE",
    "BY_RANK",
    "FINISH_REASONS",
    "INTERACTIVE",
    "MANY",
    "OUTCOMES",
    "PHASES",
    "ROWS",
    "RUNNING",
    "WAITING",
    "by_profile",
    "count_where",
    "kv_usage",
    "legend",
    "prefix_hit_rate",
    "quantiles",
    "slots_used",
    "tokens_per_second",
]

#: As many series as a graph's legend can be read for.
MANY = 20
#: As many rows as a timeline can be read with.
ROWS = 10
#: The targets that graphs draw: those of the class that people wait for.
INTERACTIVE = TARGETS[ServiceClass.INTERACTIVE]

#: What can be picked on every board, so that a link from one to another loses nothing.
ALL = ("job", "model_name", "instance", "engine", "service_class", "profile")

#: Outcomes and finish reasons have the same colours everywhere.
OUTCOMES = {
    "ok": Colour.GOOD,
    "abort": Colour.QUIET,
    "rejected": Colour.WARNING,
    "timeout": Colour.WARNING,
    "error": Colour.CRITICAL,
}
FINISH_REASONS = {
    "stop": Colour.GOOD,
    "length": Colour.NEUTRAL,
    "repetition": Colour.WARNING,
    "abort": Colour.QUIET,
    "error": Colour.CRITICAL,
}

#: So have the phases of a request, whether vLLM tells them or the join.
PHASES = {
    "outside": Colour.QUIET,
    "queue": Colour.WARNING,
    "prefill": Colour.NEUTRAL,
    "decode": Colour.GOOD,
}

#: The name of an engine's series; where there is less room, without the model.
BY_ENGINE = "{{instance}} {{model_name}} engine {{engine}}"
BY_RANK = "{{instance}} engine {{engine}}"

RUNNING = vllm("running")
WAITING = vllm("waiting")


def by_profile(of: Expr, *labels: str) -> Query:
    """Name series by their profile, and by what other labels they keep."""
    return Query(otherwise(of, "profile", "no profile"), legend("profile", *labels))


def legend(*labels: str, before: str = "") -> str:
    """Name a series by its labels."""
    names = " ".join(f"{{{{{label}}}}}" for label in labels)
    return f"{before} {names}".strip()


def quantiles(histogram: Metric, *labels: str) -> tuple[Query, ...]:
    """Ask for the median, the 95th and the 99th percentile, for each value of the labels."""
    return tuple(
        Query(top(MANY, quantile(share, histogram, *labels)), legend(*labels, before=name))
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    )


def kv_usage() -> Expr:
    """Return the KV-cache usage of each engine, 0 to 1."""
    return max_by(select(vllm("kv_usage")), *ENGINE)


def slots_used() -> Expr:
    """Return running requests over max_num_seqs, of each engine."""
    return max_by(select(own("sequence_utilization_ratio")), *ENGINE)


def tokens_per_second(key: str, *labels: str) -> Expr:
    """Return the rate of a token counter."""
    return sum_by(rate(vllm(key)), *labels)


def prefix_hit_rate(*labels: str, kind: str = "prefix") -> Expr:
    """Return the share of what was looked up in a cache that it held."""
    return ratio(sum_by(rate(vllm(f"{kind}_hits")), *labels), sum_by(rate(vllm(f"{kind}_queries")), *labels))


def count_where(gauge: Metric, operator: str, value: float, *matchers: str) -> Expr:
    """Count the servers whose largest value compares so: 0 where none does, absent where nothing is known."""
    return sum_by(calculate(max_by(select(gauge, *matchers), *SERVER), f"{operator} bool", value))
