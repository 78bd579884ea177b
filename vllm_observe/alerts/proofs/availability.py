"""Servers that are gone, hung, or answer without serving; requests that fail or are given up."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, gauge
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, ended, from_instance, own, vllm
from vllm_observe.alerts.proofs.proof import Proof, critical, over, under, warning

__all__ = ["AVAILABILITY", "gone", "jumps", "outcomes"]

#: When trouble begins.
_THEN = 600


def _unreachable(reason: str) -> Page:
    """A server whose sidecar gets nothing any more: its engine's series end."""
    return {
        **ended(HEALTHY, _THEN, names="vllm:"),
        own("scrape_success"): gauge(1, (_THEN, 0)),
        own("scrape_failures_total", f'reason="{reason}"'): counter(0, (_THEN, 0.2)),
    }


def jumps(times: int, *, every: int = 600) -> Course:
    """A counter that grows by 1 so many times, from second 600 on."""
    parts: list[tuple[int, float | None]] = [(0, 0.0)]
    for number in range(1, times + 1):
        parts += [(number * every, 1 / STEP), (number * every + STEP, 0.0)]
    return counter(*parts)


def outcomes(outcome: str, share: float, *, per_s: float = PER_S) -> Page:
    """A service of whose requests a share ends so."""
    return {
        own("requests_total", f'profile="assistant",outcome="{name}"', of="model"): counter(per_s * part)
        for name, part in ((outcome, share), ("ok", 1 - share))
    }


def gone(page: Page) -> tuple[Proof, ...]:
    """A server that leaves with work, one of two or the last; those that are drained leave none behind.

    The last of a job is missed in either case.
    """
    left = ended(page, _THEN)
    drained = ended({**page, vllm("num_requests_running"): gauge(4, (_THEN - STEP, 0))}, _THEN)
    other = from_instance(page, "b:9809")
    return (
        Proof(
            rule=warning("VLLMTargetGone"),
            onset=_THEN,
            fires={**other, **left},
            quiet={**other, **drained},
        ),
        Proof(
            rule=critical("VLLMTargetGone"),
            onset=_THEN,
            fires=left,
            beside=(warning("VLLMTargetGone"),),
            quiet=drained,
            guarded={"while another serves": other},
        ),
        Proof(
            rule=warning("VLLMAllTargetsGone"),
            onset=_THEN,
            fires=ended({**page, vllm("num_requests_running"): gauge(0)}, _THEN),
            quiet={**other, **drained},
        ),
    )


AVAILABILITY = (
    Proof(
        rule=critical("VLLMTargetDown"),
        onset=_THEN,
        fires=_unreachable("connection"),
        # It never was up, and loads its model: ten minutes and more.
        quiet={
            **dict.fromkeys(ended(HEALTHY, 0, names="vllm:")),
            own("scrape_success"): gauge(0),
            own("scrape_failures_total", 'reason="connection"'): counter(0.2),
        },
    ),
    *gone(HEALTHY),
    Proof(
        rule=warning("VLLMMetricsMissing"),
        onset=_THEN,
        fires=_unreachable("no_vllm_metrics"),
        quiet=_unreachable("http_server"),
        quiet_beside=(warning("VLLMObserveScrapeFailing"),),
    ),
    Proof(
        rule=critical("VLLMEngineStalled"),
        fires={own("engine_stalled", of="engine"): gauge(1)},
        quiet={own("engine_stalled", of="engine"): gauge(0)},
    ),
    Proof(
        rule=critical("VLLMAnswersWithoutTokens"),
        fires={own("engine_answers_without_tokens"): gauge(1)},
        quiet={own("engine_answers_without_tokens"): gauge(0)},
    ),
    Proof(
        rule=warning("VLLMEngineRestarting"),
        onset=600 * thresholds.RESTARTS_AN_HOUR,
        fires={own("engine_restarts_total"): jumps(thresholds.RESTARTS_AN_HOUR)},
        quiet={own("engine_restarts_total"): jumps(thresholds.RESTARTS_AN_HOUR - 1)},
    ),
    Proof(
        rule=critical("VLLMCorruptedRequests"),
        onset=_THEN,
        fires={vllm("corrupted_requests_total"): jumps(1)},
        quiet={vllm("corrupted_requests_total"): counter(0)},
    ),
    Proof(
        rule=critical("VLLMRequestErrorsHigh"),
        onset=STEP,
        fires=outcomes("error", over(thresholds.ERRORS_HIGH)),
        quiet=outcomes("error", under(thresholds.ERRORS_HIGH)),
    ),
    Proof(
        rule=warning("VLLMClientDisconnectsHigh"),
        onset=STEP,
        fires=outcomes("abort", over(thresholds.DISCONNECTS_HIGH)),
        quiet=outcomes("abort", under(thresholds.DISCONNECTS_HIGH)),
        guarded={
            "for want of requests": outcomes("abort", 1.0, per_s=under(thresholds.JUDGED_MIN_REQUESTS / 600))
        },
    ),
)
