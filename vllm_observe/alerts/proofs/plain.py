"""Proofs of the rules on vLLM's own page, where they ask other things than on a sidecar's."""

from __future__ import annotations

from math import ceil

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.availability import gone
from vllm_observe.alerts.proofs.births import PLAIN_BIRTHS
from vllm_observe.alerts.proofs.capacity import CAPACITY_WAITING
from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, flicker, gauge
from vllm_observe.alerts.proofs.latency import TOKENS, p95
from vllm_observe.alerts.proofs.page import PER_S, PLAIN, SLOTS, ended, http, vllm
from vllm_observe.alerts.proofs.proof import Check, Proof, Scene, critical, over, under, warning
from vllm_observe.alerts.proofs.service_levels import burning, first_tokens
from vllm_observe.model import ServiceClass

__all__ = ["PLAIN_EDGES", "PLAIN_PROOFS"]

_THEN = 600
#: When a window of the stall's length holds nothing of the time before.
_STALLED = _THEN + int(thresholds.STALL_AFTER_S) - STEP
_UP = next(series for series in PLAIN if series.startswith("up{"))
_STARTED = next(series for series in PLAIN if series.startswith("process_start"))
_PROMPTS = vllm("prompt_tokens_total")
_RUNNING, _WAITING = vllm("num_requests_running"), vllm("num_requests_waiting")
_ENGINE_SERIES = dict.fromkeys(ended(PLAIN, 0, names="vllm:"))


def _no_token(running: int, waiting: int = 0) -> Page:
    return {
        _RUNNING: gauge(running),
        _WAITING: gauge(waiting),
        TOKENS: counter(400.0, (_THEN, 0.0)),
        _PROMPTS: counter(2000.0, (_THEN, 0.0)),
        http("2xx"): counter(PER_S, (_THEN, 0.0)),
    }


def _answers(number: float) -> Page:
    """So many 2xx within the time of a stall, and no token."""
    return {**_no_token(0), http("2xx"): counter(PER_S, (_THEN, number / thresholds.STALL_AFTER_S))}


def _errors(share: float, *, per_s: float = PER_S) -> Page:
    return {http("2xx"): counter(per_s * (1 - share)), http("5xx"): counter(per_s * share)}


def _imbalance(second: int) -> Page:
    return {
        _RUNNING: gauge(SLOTS - 1),
        _RUNNING.replace('engine="0"', 'engine="1"'): gauge(second),
        _WAITING: gauge(1),
    }


def _restarts(number: int) -> Page:
    starts = gauge(*((600 * life, 1000.0 + 600 * life) for life in range(number + 1)))
    return {_STARTED: starts}


_TARGETS = thresholds.TARGETS[ServiceClass.INTERACTIVE]
_BURN = "VLLMTimeToFirstTokenBudgetBurn"
_SLOWLY = burning(_BURN, ServiceClass.INTERACTIVE, below=1.5)
_FULL = ceil(thresholds.SLOTS_EXHAUSTED * SLOTS)
_NEAR = ceil(thresholds.SLOTS_NEAR_LIMIT * SLOTS)

PLAIN_PROOFS = (
    *gone(PLAIN),
    *first_tokens(ServiceClass.INTERACTIVE, told_by=vllm("time_to_first_token_seconds")),
    Proof(
        rule=critical("VLLMTargetDown"),
        onset=_THEN,
        fires={**ended(PLAIN, _THEN), _UP: gauge(1, (_THEN, 0))},
        quiet={**dict.fromkeys(PLAIN), _UP: gauge(0)},  # it loads its model
    ),
    Proof(
        rule=warning("VLLMMetricsMissing"),
        onset=_THEN,
        fires=ended(PLAIN, _THEN, names="vllm:"),
        quiet={'up{job="node",instance="a:9100"}': gauge(1)},
    ),
    Proof(
        rule=critical("VLLMEngineStalled"),
        onset=_STALLED,
        fires=_no_token(running=4),
        quiet={**_no_token(running=4), TOKENS: counter(400.0, (_THEN, 0.01))},
    ),
    Proof(
        rule=critical("VLLMAnswersWithoutTokens"),
        onset=_STALLED,
        fires=_answers(over(thresholds.ANSWERS_WITHOUT_TOKENS)),
        quiet=_answers(under(thresholds.ANSWERS_WITHOUT_TOKENS)),
    ),
    Proof(
        rule=warning("VLLMEngineRestarting"),
        onset=600 * thresholds.RESTARTS_AN_HOUR,
        fires=_restarts(thresholds.RESTARTS_AN_HOUR),
        quiet=_restarts(thresholds.RESTARTS_AN_HOUR - 1),
    ),
    Proof(
        rule=critical("VLLMRequestErrorsHigh"),
        onset=STEP,
        fires=_errors(over(thresholds.ERRORS_HIGH)),
        quiet=_errors(under(thresholds.ERRORS_HIGH)),
        guarded={"for want of requests": _errors(1.0, per_s=under(thresholds.JUDGED_MIN_REQUESTS / 300))},
    ),
    Proof(
        rule=warning("VLLMSequenceSlotsNearLimit"),
        fires={_RUNNING: gauge(_NEAR)},
        quiet={_RUNNING: gauge(_NEAR - 1)},
    ),
    Proof(
        rule=critical("VLLMSequenceSlotsExhausted"),
        fires={_RUNNING: gauge(_FULL), CAPACITY_WAITING: gauge(1)},
        quiet={_RUNNING: gauge(under(thresholds.SLOTS_EXHAUSTED) * SLOTS), CAPACITY_WAITING: gauge(1)},
    ),
    Proof(
        rule=warning("VLLMTimeToFirstTokenHigh"),
        onset=STEP,
        fires=p95("time_to_first_token_seconds", over(_TARGETS.ttft)),
        beside=_SLOWLY,  # of the same histogram
        quiet=p95("time_to_first_token_seconds", under(_TARGETS.ttft)),
    ),
    Proof(
        rule=warning("VLLMInterTokenLatencyHigh"),
        onset=STEP,
        fires=p95("inter_token_latency_seconds", over(_TARGETS.tpot)),
        quiet=p95("inter_token_latency_seconds", under(_TARGETS.tpot)),
    ),
    Proof(
        rule=warning("VLLMDataParallelImbalance"),
        fires=_imbalance(SLOTS - 1 - SLOTS // 2 - 1),
        quiet=_imbalance(SLOTS - 1 - SLOTS // 2),
    ),
)

#: States that a sidecar sees through by itself.
PLAIN_EDGES = (
    Scene(
        "work waits and none of it runs", _no_token(0, 3), (Check(1200, (critical("VLLMEngineStalled"),)),)
    ),
    Scene(
        "an engine that sleeps with requests held",
        {**_no_token(4), vllm("engine_sleep_state", 'sleep_state="awake"'): gauge(1, (_THEN, 0))},
        (Check(1800),),
    ),
    Scene(
        "a first prompt so long that no token comes for minutes",
        {
            **{name: gauge((900, 1)) if name == _RUNNING else None for name in _ENGINE_SERIES},
            http("2xx"): counter(0),
            TOKENS: counter((900, 0.0), (1140, 40.0)),
            _PROMPTS: counter((900, 0.0), (1140, 4000.0)),
        },
        (Check(1080), Check(1140), Check(1800)),
    ),
    Scene(
        "bursts: full in one sample of four",
        {_RUNNING: flicker(1, SLOTS, every=4, until=1800), CAPACITY_WAITING: gauge(9)},
        (Check(660), Check(1800)),
    ),
    Scene(
        "full, now and then one less, and in one sample of eight nobody waits",
        {
            _RUNNING: flicker(SLOTS, SLOTS - 1, until=1800),
            CAPACITY_WAITING: flicker(9, 0, every=8, until=1800),
        },
        (Check(1800, (critical("VLLMSequenceSlotsExhausted"), warning("VLLMSequenceSlotsNearLimit"))),),
    ),
    Scene(
        "several API processes, each with a series of its own, most of them 0",
        {
            _RUNNING: None,
            **{
                _RUNNING.replace("}", f',pid="{pid}"}}'): gauge(SLOTS if pid == 1 else 0)
                for pid in range(1, 4)
            },
            CAPACITY_WAITING: gauge(16),
        },
        (Check(1200, (critical("VLLMSequenceSlotsExhausted"), warning("VLLMSequenceSlotsNearLimit"))),),
    ),
    Scene(
        "restarts where several API processes show no time of a start",
        {_STARTED: None, _PROMPTS: gauge(*((600 * life, 100.0 - life) for life in range(4)))},
        (Check(600 * thresholds.RESTARTS_AN_HOUR, (warning("VLLMEngineRestarting"),)),),
    ),
    Scene(
        "one of four engines hangs, full and with requests waiting",
        {
            **{
                name.replace('engine="0"', f'engine="{rank}"'): course
                for rank in (1, 2, 3)
                for name, course in PLAIN.items()
                if 'engine="0"' in name
            },
            **{name: course for name, course in _no_token(SLOTS, 16).items() if name != http("2xx")},
            CAPACITY_WAITING: gauge(16),
        },
        # The others are half full, so it is no imbalance.
        (
            Check(
                1800,
                (
                    critical("VLLMEngineStalled"),
                    critical("VLLMSequenceSlotsExhausted"),
                    warning("VLLMSequenceSlotsNearLimit"),
                ),
            ),
        ),
    ),
    Scene(
        "a model that loads for ten minutes, and then serves",
        {
            **{
                name: Course(((600, course.parts[0][1]),), counts=course.counts)
                for name, course in PLAIN.items()
            },
            _UP: gauge(0, (600, 1)),
        },
        (Check(300), Check(600), Check(1500)),
    ),
    Scene(
        "a model that never comes up",
        {**dict.fromkeys(PLAIN), _UP: gauge(0)},
        (Check(690), Check(1500, (critical("VLLMTargetDown"),))),
    ),
    Scene(
        "a restart: all counters begin again",
        {
            **{
                name: Course(
                    ((0, course.parts[0][1]), (1200, None), (1260, course.parts[0][1])),
                    counts=True,
                    start=1e6,
                    resets=True,
                )
                for name, course in PLAIN.items()
                if course.counts
            },
            _STARTED: gauge(1000, (1260, 2260)),
        },
        (Check(1290), Check(1800)),
    ),
    Scene("another job's target is down", {'up{job="node",instance="a:9100"}': gauge(0)}, (Check(1800),)),
    *PLAIN_BIRTHS,
)
