"""Imbalance, a lost cache, bad drafts, too few LoRA slots."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, flicker, gauge
from vllm_observe.alerts.proofs.page import PER_S, own, vllm
from vllm_observe.alerts.proofs.proof import Proof, over, under, warning

__all__ = ["EFFICIENCY", "adapters"]

_UTILIZATION = own("sequence_utilization_ratio", of="engine")
_RUNNING, _WAITING = (own("lora_adapters", f'state="{state}"') for state in ("running", "waiting"))
_THEN = 3600
_FULLEST = 0.8
_TOKENS_PER_S = 2000.0
_DONE = vllm("request_success_total", 'finished_reason="stop"')
_ENOUGH = 5 * thresholds.JUDGED_MIN_REQUESTS


def _imbalance(difference: float) -> Page:
    return {
        _UTILIZATION: gauge(_FULLEST),
        _UTILIZATION.replace('engine="0"', 'engine="1"'): gauge(_FULLEST - difference),
        own("max_num_seqs", of="engine").replace('engine="0"', 'engine="1"'): gauge(8),
        vllm("num_requests_waiting"): gauge(1),
    }


def _hits(share: float) -> Page:
    usual = 2 * thresholds.PREFIX_CACHE_MATTERS
    return {
        vllm("prefix_cache_hits_total"): counter(
            _TOKENS_PER_S * usual, (_THEN, _TOKENS_PER_S * usual * share)
        )
    }


def _accepted(share: float) -> Page:
    return {
        vllm("spec_decode_num_draft_tokens_total"): counter(100.0),
        vllm("spec_decode_num_accepted_tokens_total"): counter(100.0 * share),
    }


def adapters(running: Course, waiting: Course) -> Page:
    """LoRA adapters that have requests, running and waiting, of at most four that run."""
    return {own("lora_max_adapters"): gauge(4), _RUNNING: running, _WAITING: waiting}


def _alternating(level: float) -> Course:
    """A gauge that shows a level in every other sample, and else 0: just half of the time."""
    return flicker(level, 0, every=2, until=_THEN)


EFFICIENCY = (
    Proof(
        rule=warning("VLLMDataParallelImbalance"),
        fires=_imbalance(over(thresholds.IMBALANCE)),
        quiet=_imbalance(under(thresholds.IMBALANCE)),
        guarded={"while nobody waits": {vllm("num_requests_waiting"): gauge(0)}},
    ),
    Proof(
        rule=warning("VLLMPrefixCacheHitRateDropped"),
        onset=_THEN + 900 - STEP,
        fires=_hits(under(thresholds.PREFIX_CACHE_DROP)),
        quiet=_hits(over(thresholds.PREFIX_CACHE_DROP)),
        guarded={"for want of requests": {_DONE: counter(PER_S, (_THEN, under(_ENOUGH) / 900))}},
    ),
    Proof(
        rule=warning("VLLMSpeculativeAcceptanceLow"),
        onset=STEP,
        fires=_accepted(under(thresholds.SPECULATIVE_ACCEPTANCE_LOW)),
        quiet=_accepted(over(thresholds.SPECULATIVE_ACCEPTANCE_LOW)),
        guarded={"for want of requests": {_DONE: counter(under(thresholds.JUDGED_MIN_REQUESTS) / 900)}},
    ),
    Proof(
        rule=warning("VLLMLoRASlotsSaturated"),
        onset=2 * STEP,
        # One scrape of four finds the moment between two requests.
        fires=adapters(flicker(4, 0, every=4, until=_THEN), flicker(1, 0, every=4, until=_THEN)),
        quiet=adapters(_alternating(4), _alternating(1)),
        guarded={
            "while a slot is free": {_RUNNING: gauge(3)},
            "in a burst of many, a quarter of the time": {
                _RUNNING: gauge(4),
                _WAITING: flicker(0, 9, every=4, until=_THEN),
            },
        },
    ),
)
