"""Scrapes as one file that Prometheus takes in afterwards: OpenMetrics, each sample with its time.

``promtool tsdb create-blocks-from openmetrics`` reads it. The samples stand in the order of time, since
a day of them does not fit into memory, and so there are no types, which a TSDB would not keep either.
Prometheus marks what vanished from a page as stale and this file cannot: a query still finds a series
for five minutes after its last sample.
"""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.sim.scenarios.virtual import Scrape

__all__ = ["END", "samples"]

#: The line after the last sample.
END = "# EOF\n"


def samples(scrape: Scrape, *, job: str = "vllm", instance: str = "vllm-0:8000") -> Iterator[str]:
    """Write a scrape as Prometheus would store it: with the target's labels, and ``up``.

    Args:
        scrape: what was seen.
        job: the target's job.
        instance: its address; both hold no quotation mark.
    """
    target, at = f'job="{job}",instance="{instance}"', f"{scrape.at:.3f}"
    yield f"up{{{target}}} {int(scrape.answers)} {at}\n"
    for line in (scrape.page or "").splitlines():
        if line.startswith("#"):
            continue
        series, _, value = line.rpartition(" ")
        labelled = f"{series[:-1]},{target}}}" if series.endswith("}") else f"{series}{{{target}}}"
        yield f"{labelled} {value} {at}\n"
