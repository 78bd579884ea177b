"""What vLLM shows only with options that no simulated run sets: drafts, adapters, caches outside the engine.

Names, types and labels are each release's own (``support.facts``). The numbers grow evenly, so that there
is something to draw, and a share of them is neither 0 nor 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any

from support.facts import rows
from vllm_observe.sim.pages import Flavour

__all__ = ["with_options"]

#: The values of what a family is split by besides the model, as vLLM's code spells them.
_VALUES = {
    "engine": ("0",),
    "position": ("0", "1", "2"),
    "stage": ("waiting_to_start", "in_progress", "completed_waiting"),
    "transfer_type": ("CPU_to_GPU", "GPU_to_CPU"),
}

#: How much each counter grows a second.
_COUNTERS = {
    "vllm:spec_decode_num_drafts_total": 10,
    "vllm:spec_decode_num_draft_tokens_total": 30,
    "vllm:spec_decode_num_accepted_tokens_total": 18,
    "vllm:spec_decode_num_accepted_tokens_per_pos_total": 6,
    "vllm:external_prefix_cache_queries_total": 1000,
    "vllm:external_prefix_cache_hits_total": 400,
    "vllm:mm_cache_queries_total": 4,
    "vllm:mm_cache_hits_total": 1,
    "vllm:kv_offload_load_bytes_total": 2e8,
    "vllm:kv_offload_store_bytes_total": 5e8,
    "vllm:kv_offload_total_bytes_total": 3e8,
    "vllm:nixl_num_failed_transfers_total": 0.2,
    "vllm:nixl_num_failed_notifications_total": 0.1,
    "vllm:nixl_num_kv_expired_reqs_total": 0.1,
}
_GAUGES = {"vllm:spec_decode_draft_acceptance_rate": 0.6, "vllm:num_requests_kv_fetch_by_stage": 2}
#: What each histogram observes once a second, in seconds.
_HISTOGRAMS = {"vllm:nixl_xfer_time_seconds": 0.04}
_XFER_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 5.0)

#: Which adapters waited and ran, and from which second on. vLLM keeps a series for each such state.
_LORA = "vllm:lora_requests_info"
_ADAPTERS = (("", "", 0), ("", "tax-q", 5), ("hr-de", "tax-q,faq-es", 10))


def with_options(page: str, release: str, flavour: Flavour, *, model: str, started: float, now: float) -> str:
    """Return a page as the release writes it with those options set.

    Args:
        page: without them; what it says of the same families is replaced.
        release: whose page it is.
        flavour: its engine.
        model: the name of its model.
        started: when its process was started, in seconds since the Unix epoch.
        now: what time it is.
    """
    told = _told(release, flavour)
    kept = [line for line in page.splitlines() if _family(line) not in told]
    lines = [line for row in told.values() for line in _lines(row, model, started, now)]
    return "".join(f"{line}\n" for line in kept + lines)


@cache
def _told(release: str, flavour: Flavour) -> Mapping[str, Mapping[str, Any]]:
    known = {*_COUNTERS, *_GAUGES, *_HISTOGRAMS, _LORA}
    return {row["family"]: row for row in rows(release, flavour.value) if row["family"] in known}


def _family(line: str) -> str:
    """The family of a line. A counter's creation is told as a gauge of its own."""
    name = re.split(r"[ {]", line.removeprefix("# HELP ").removeprefix("# TYPE "), maxsplit=1)[0]
    return re.sub("_created$", "_total", name)


def _lines(row: Mapping[str, Any], model: str, started: float, now: float) -> Iterator[str]:
    family = row["family"]
    yield f"# TYPE {family} {row['type']}"
    if family == _LORA:
        for waiting, running, second in _ADAPTERS:
            if started + second <= now:
                labels = f'max_lora="2",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"'
                yield f"{family}{{{labels}}} {started + second!r}"
        return
    values = [(model,) if label == "model_name" else _VALUES[label] for label in row["labels"]]
    for value in product(*values):
        labels = ",".join(f'{name}="{one}"' for name, one in zip(row["labels"], value, strict=True))
        yield from _samples(family, labels, now - started)


def _samples(family: str, labels: str, age: float) -> Iterator[str]:
    if family in _GAUGES:
        yield f"{family}{{{labels}}} {_GAUGES[family]}"
    elif family in _COUNTERS:
        yield f"{family}{{{labels}}} {_COUNTERS[family] * age!r}"
    else:
        observed, counted = _HISTOGRAMS[family], int(age)
        for bound in (*_XFER_BOUNDS, float("inf")):
            le = "+Inf" if bound == float("inf") else repr(bound)
            yield f'{family}_bucket{{{labels},le="{le}"}} {counted if observed <= bound else 0}'
        yield f"{family}_sum{{{labels}}} {counted * observed!r}"
        yield f"{family}_count{{{labels}}} {counted}"
