"""The sidecar itself."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.course import STEP, Page, counter, gauge
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, ended, own, vllm
from vllm_observe.alerts.proofs.proof import Proof, critical, info, over, under, warning

__all__ = ["OBSERVER"]

_THEN = 1200
_LINES = own("log_lines_total")
_DONE = vllm("request_success_total", 'finished_reason="stop"')
_ENOUGH = thresholds.JUDGED_MIN_REQUESTS


def _failing(reason: str) -> Page:
    return {
        **ended(HEALTHY, _THEN, names="vllm:"),
        own("scrape_success"): gauge(1, (_THEN, 0)),
        own("scrape_failures_total", f'reason="{reason}"'): counter(0, (_THEN, 0.2)),
    }


def _joined(share: float, *, per_s: float = PER_S) -> Page:
    return {
        own("join_closed_total", 'parts="both"'): counter(per_s * share),
        own("join_closed_total", 'parts="engine"'): counter(per_s * (1 - share)),
    }


def _unparsed(share: float) -> Page:
    return {own("log_unparsed_total", 'reason="not_json"'): counter(PER_S * share)}


_UP = next(series for series in HEALTHY if series.startswith("up{"))

OBSERVER = (
    Proof(
        rule=critical("VLLMObserveDown"),
        onset=_THEN,
        fires={**ended(HEALTHY, _THEN), _UP: gauge(1, (_THEN, 0))},
        quiet={'up{job="node",instance="a:9100"}': gauge(0)},  # nobody's sidecar
    ),
    Proof(
        rule=warning("VLLMObserveScrapeFailing"),
        onset=_THEN,
        fires=_failing("http_server"),
        quiet=_failing("timeout"),
        quiet_beside=(critical("VLLMTargetDown"),),
    ),
    Proof(
        rule=warning("VLLMObserveRequestLogSilent"),
        onset=_THEN + 300 - STEP,
        fires={_LINES: counter(PER_S, (_THEN, 0.0))},
        quiet={_LINES: counter(PER_S, (_THEN, 0.01))},
        guarded={"for want of requests": {_DONE: counter(under(_ENOUGH / 900))}},
    ),
    Proof(
        rule=warning("VLLMObserveJoinCoverageLow"),
        onset=STEP,
        fires=_joined(under(thresholds.JOIN_COVERAGE_LOW)),
        quiet=_joined(over(thresholds.JOIN_COVERAGE_LOW)),
        guarded={"for want of requests": _joined(0.0, per_s=under(_ENOUGH / 600))},
    ),
    Proof(
        rule=warning("VLLMObserveUnparsedLines"),
        onset=STEP,
        fires=_unparsed(over(thresholds.UNPARSED_HIGH)),
        quiet=_unparsed(under(thresholds.UNPARSED_HIGH)),
    ),
    Proof(
        rule=warning("VLLMObserveDropping"),
        onset=STEP,
        fires={own("dropped_total", 'reason="label_cap"'): counter(0.01)},
        quiet={own("dropped_total", 'reason="label_cap"'): counter(0, start=1000)},
    ),
    Proof(
        rule=info("VLLMObserveLimitsUnknown"),
        fires={own("max_num_seqs", of="engine"): None},
        quiet={own("max_num_seqs", of="engine"): gauge(8)},
        guarded={"where no sidecar is that could know": {own("build_info"): None}},
    ),
)
