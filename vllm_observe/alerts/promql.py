"""The PromQL that the rules are made of: label sets, selectors, and the few shapes that come up again."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ENGINE",
    "JOB",
    "MODEL",
    "SERVER",
    "SERVICE",
    "Scope",
    "counted",
    "grew",
    "mean",
    "quantile",
    "span",
]

#: Servers that are scraped alike. A label that a target lacks does no harm in ``by``.
JOB = "cluster, namespace, job"
#: One model, whoever serves it: neither pids nor pods, which change while the service stays.
SERVICE = f"{JOB}, model_name"
#: One vLLM server, whatever it serves.
SERVER = f"{JOB}, instance"
#: One model on one server.
MODEL = f"{SERVER}, model_name"
#: One engine core of one server: a data-parallel rank.
ENGINE = f"{MODEL}, engine"

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def span(seconds: int) -> str:
    """Write a duration as Prometheus does: ``5m`` for 300."""
    return next(f"{seconds // size}{unit}" for size, unit in _UNITS if seconds % size == 0)


@dataclass(frozen=True)
class Scope:
    """Which targets the rules watch: matchers that stand in every selector, such as ``job="vllm"``."""

    matchers: str = ""

    def __call__(self, metric: str, *matchers: str) -> str:
        """Return a selector of one metric."""
        all_matchers = ",".join(filter(None, (self.matchers, *matchers)))
        return f"{metric}{{{all_matchers}}}" if all_matchers else metric


def grew(counter: str, scope: Scope, window: str) -> str:
    """Whether a counter grew within a window such as ``10m``, also where its series began in it.

    ``increase`` does not see the first value of a series, and a label such as ``reason`` is there only
    from the first event on: for many counters that event is the one to tell. A series that comes back
    from a gap as it was has not grown. Of a server that was not known before the window, to a new
    Prometheus or under a new name, a first value may be of any age: it tells nothing.
    """
    series, earlier = scope(counter), f"[1d] offset {window}"
    known = f"last_over_time({scope('vllm:num_requests_running')}{earlier})"
    return (
        f"(increase({series}[{window}]) > 0\n"
        f"or ({series} > 0 unless {series} == last_over_time({series}{earlier}) and on ({SERVER}) {known}))"
    )


def counted(scope: Scope, window: str, counter: str, *matchers: str) -> str:
    """Return how much each series of a counter grew within a window such as ``5m``, its first value too.

    ``increase`` does not see that value, and a label such as ``profile`` or ``status`` may come with a burst:
    the burst would be lost. A series that its page did not have when the window began has grown by all that it
    shows. Of a server that had no page then, to a new Prometheus, after a gap or under a new name, a first
    value may be of any age: there only ``increase`` counts.
    """
    series = scope(counter, *matchers)
    page = scope(
        "vllm_observe_build_info" if counter.startswith("vllm_observe_") else "vllm:num_requests_running"
    )
    increase = f"increase({series}[{window}])"
    born = f"{series} unless {series} offset {window} and on ({SERVER}) {page} offset {window}"
    # Larger is the increase where the counter was reset since.
    return f"(({born}) > {increase} or {increase})"


def mean(histogram: str, scope: Scope, labels: str, window: str) -> str:
    """Return a histogram's mean over a window such as ``[5m]``.

    Where nothing was observed it is absent: not 0, not NaN.
    """
    return (
        f"sum by ({labels}) (rate({scope(histogram + '_sum')}{window}))"
        f" / (sum by ({labels}) (rate({scope(histogram + '_count')}{window})) > 0)"
    )


def quantile(share: float, histogram: str, scope: Scope, labels: str, window: str) -> str:
    """Return a histogram's quantile over a window such as ``[5m]``.

    Where nothing was observed it is NaN, for which no comparison holds.
    """
    buckets = scope(histogram + "_bucket")
    return f"histogram_quantile({share}, sum by ({labels}, le) (rate({buckets}{window})))"
