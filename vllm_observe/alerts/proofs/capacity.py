"""Slots, KV cache and the queue."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.availability import jumps
from vllm_observe.alerts.proofs.course import STEP, Page, counter, gauge
from vllm_observe.alerts.proofs.page import PER_S, histogram, own, vllm
from vllm_observe.alerts.proofs.proof import Proof, critical, over, under, warning

__all__ = ["CAPACITY", "CAPACITY_WAITING", "KV", "queue_time"]

_UTILIZATION = own("sequence_utilization_ratio", of="engine")
CAPACITY_WAITING = vllm("num_requests_waiting_by_reason", 'reason="capacity"')
KV = vllm("kv_cache_usage_perc")
_REJECTIONS = vllm("admission_rejections_total", 'reason="max_num_queued_reqs"', engine="")


def _thrashing(usage: float, for_each_request: float) -> Page:
    return {KV: gauge(usage), vllm("num_preemptions_total"): counter(PER_S * for_each_request)}


def queue_time(seconds: float) -> Page:
    """Requests that wait so long on average."""
    return histogram(vllm("request_queue_time_seconds"), {0.3: 0.0}, mean=((0, seconds),))


CAPACITY = (
    Proof(
        rule=warning("VLLMSequenceSlotsNearLimit"),
        fires={_UTILIZATION: gauge(thresholds.SLOTS_NEAR_LIMIT)},
        quiet={_UTILIZATION: gauge(under(thresholds.SLOTS_NEAR_LIMIT))},
    ),
    Proof(
        rule=critical("VLLMSequenceSlotsExhausted"),
        fires={_UTILIZATION: gauge(thresholds.SLOTS_EXHAUSTED), CAPACITY_WAITING: gauge(1)},
        quiet={_UTILIZATION: gauge(under(thresholds.SLOTS_EXHAUSTED)), CAPACITY_WAITING: gauge(1)},
    ),
    Proof(
        rule=warning("VLLMKVCacheNearFull"),
        fires={KV: gauge(over(thresholds.KV_NEAR_FULL))},
        quiet={KV: gauge(under(thresholds.KV_NEAR_FULL))},
    ),
    Proof(
        rule=critical("VLLMKVCacheThrashing"),
        onset=STEP,
        fires=_thrashing(over(thresholds.KV_FULL), over(thresholds.PREEMPTIONS_HIGH)),
        beside=(warning("VLLMKVCacheNearFull"),),
        quiet=_thrashing(under(thresholds.KV_FULL), over(thresholds.PREEMPTIONS_HIGH)),
        quiet_beside=(warning("VLLMKVCacheNearFull"),),
    ),
    Proof(
        rule=warning("VLLMQueueTimeHigh"),
        onset=STEP,
        fires=queue_time(over(thresholds.QUEUE_TIME_HIGH_S)),
        quiet=queue_time(under(thresholds.QUEUE_TIME_HIGH_S)),
    ),
    Proof(
        rule=critical("VLLMQueueTimeHigh"),
        onset=STEP,
        fires=queue_time(over(thresholds.QUEUE_TIME_CRITICAL_S)),
        beside=(warning("VLLMQueueTimeHigh"),),
        quiet=queue_time(under(thresholds.QUEUE_TIME_CRITICAL_S)),
        quiet_beside=(warning("VLLMQueueTimeHigh"),),
    ),
    Proof(
        rule=warning("VLLMAdmissionRejections"),
        onset=600,
        # vLLM shows the counter from the first rejection on: its first sample is 1.
        fires={_REJECTIONS: counter((600, 0.0), start=1)},
        quiet={_REJECTIONS: jumps(0)},
    ),
)
