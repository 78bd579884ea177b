"""What is on no side of a threshold: states that mislead rules, and what must or must not come of them."""

from __future__ import annotations

from math import nan

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.availability import outcomes
from vllm_observe.alerts.proofs.births import BIRTHS
from vllm_observe.alerts.proofs.capacity import CAPACITY_WAITING, KV
from vllm_observe.alerts.proofs.counters import COUNTERS
from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, flicker, gauge
from vllm_observe.alerts.proofs.efficiency import adapters
from vllm_observe.alerts.proofs.gpu import GPU_EDGES
from vllm_observe.alerts.proofs.latency import TOKENS, beyond_buckets, of_class, surge
from vllm_observe.alerts.proofs.page import (
    HEALTHY,
    PER_S,
    ended,
    from_instance,
    histogram,
    http,
    own,
    target_info,
    vllm,
)
from vllm_observe.alerts.proofs.proof import Check, Identity, Scene, critical, info, over, under, warning
from vllm_observe.alerts.proofs.service_levels import FELT, burning, first_tokens_late
from vllm_observe.alerts.proofs.unreadable import UNREADABLE
from vllm_observe.alerts.proofs.without_log import WITHOUT_LOG
from vllm_observe.model import ServiceClass

__all__ = ["EDGES"]

_HOUR = 3600
#: Longer than any window and its `for` of the rules about now.
_LONG = 2100
_UTILIZATION = own("sequence_utilization_ratio", of="engine")
_WAITING = vllm("num_requests_waiting")
_LORA = warning("VLLMLoRASlotsSaturated")
_DEAD = critical("VLLMAnswersWithoutTokens")
_NEAR, _EXHAUSTED = warning("VLLMSequenceSlotsNearLimit"), critical("VLLMSequenceSlotsExhausted")
_ERRORS = own("requests_total", 'profile="assistant",outcome="error"', of="model")
_CLIENTS_FAULT = own("slow_requests_total", 'profile="assistant",cause="client_error"', of="model")
_CORRUPTED = vllm("corrupted_requests_total")
_LATE, _SLOW_BATCH = (
    warning(f"VLLM{what}High", service_class="batch") for what in ("TimeToFirstToken", "InterTokenLatency")
)
_LATE_READER, _SLOW = (warning(f"VLLM{what}High") for what in ("TimeToFirstToken", "InterTokenLatency"))
_FIRST_TOKENS = "VLLMTimeToFirstTokenBudgetBurn"


def _bursts(full: float, usual: float, *, until: int) -> Course:
    """A gauge that is full in the first minute of every ten."""
    times = range(0, until + 1, 600)
    return gauge(*(part for at in times for part in ((at, full), (at + 60, usual))))


def _engines(page: Page, rank: int) -> Page:
    return {
        name.replace('engine="0"', f'engine="{rank}"'): course
        for name, course in page.items()
        if 'engine="0"' in name
    }


def _no_traffic() -> Page:
    """A server that has served and serves nobody now."""
    still = {name: counter(0, start=1000) for name, course in HEALTHY.items() if course.counts}
    return {**still, vllm("num_requests_running"): gauge(0), _UTILIZATION: gauge(0)}


_SLOTS = (
    Scene(
        "8 of 8 slots whose gauge now and then shows 7, 16 requests waiting",
        {_UTILIZATION: flicker(1.0, 0.875, until=_LONG), CAPACITY_WAITING: gauge(16), _WAITING: gauge(16)},
        (Check(240), Check(360, (_EXHAUSTED,)), Check(_LONG, (_EXHAUSTED, _NEAR))),
    ),
    Scene(
        "the same before vLLM 0.20, which tells no reason why requests wait",
        {_UTILIZATION: gauge(1), CAPACITY_WAITING: None, _WAITING: gauge(16)},
        (Check(360, (_EXHAUSTED,)),),
    ),
    Scene(
        "every slot taken and nobody waits for one: those that wait do so for something else",
        {_UTILIZATION: gauge(1), _WAITING: gauge(3)},
        (Check(_LONG, (_NEAR,)),),
    ),
    Scene(
        "a full engine for one minute of every ten",
        {
            _UTILIZATION: _bursts(1.0, 0.4, until=_LONG),
            CAPACITY_WAITING: _bursts(60, 0, until=_LONG),
        },
        tuple(Check(at) for at in (300, 660, 1500, _LONG)),
    ),
    Scene(
        "bursts: full in one sample of four, a third of the slots on average",
        {
            _UTILIZATION: flicker(0.1, 1.0, every=4, until=_LONG),
            CAPACITY_WAITING: gauge(9),
            _WAITING: gauge(9),
        },
        tuple(Check(at) for at in (300, 660, 1500, _LONG)),
    ),
    Scene(
        "8 of 8 slots, and nine requests waiting in seven samples of eight",
        {_UTILIZATION: gauge(1), CAPACITY_WAITING: flicker(9, 0, every=8, until=_LONG)},
        (Check(360, (_EXHAUSTED,)), Check(_LONG, (_EXHAUSTED, _NEAR))),
    ),
    Scene(
        "the limit is not known: no ratio, and that is said",
        {own("max_num_seqs", of="engine"): None, _UTILIZATION: None, CAPACITY_WAITING: gauge(16)},
        (Check(_LONG, (info("VLLMObserveLimitsUnknown"),)),),
    ),
    Scene(
        "one of four engines is full",
        {
            **{name: course for rank in (1, 2, 3) for name, course in _engines(HEALTHY, rank).items()},
            _UTILIZATION: gauge(1),
            CAPACITY_WAITING: gauge(16),
            _WAITING: gauge(16),
        },
        (Check(_LONG, (_EXHAUSTED, _NEAR)),),
    ),
)

_GAUGES = (
    Scene("a KV usage that is not a number", {KV: gauge(nan)}, (Check(_LONG),)),
    Scene(
        "a full and healthy batch: the cache near its top, a preemption in two hundred requests",
        {KV: gauge(0.97), vllm("num_preemptions_total"): counter(PER_S / 200)},
        (Check(_LONG, (warning("VLLMKVCacheNearFull"),)),),
    ),
    Scene(
        "a KV cache that is full and flickers below nine tenths",
        {KV: flicker(0.99, 0.88, until=_LONG)},
        (Check(_LONG, (warning("VLLMKVCacheNearFull"),)),),
    ),
    Scene("no traffic at all", _no_traffic(), (Check(_LONG),)),
    Scene(
        "an engine that sleeps",
        {
            **_no_traffic(),
            vllm("engine_sleep_state", 'sleep_state="awake"'): gauge(0),
            vllm("engine_sleep_state", 'sleep_state="discard_all"'): gauge(1),
        },
        (Check(_LONG),),
    ),
    Scene(
        "adapters of all slots, and none waits",
        adapters(gauge(4), gauge(0)),
        (Check(_LONG),),
    ),
    Scene(
        "adapters of all slots and one that waits, and one scrape of eight that finds nobody",
        adapters(flicker(4, 0, every=8, until=_LONG), flicker(1, 0, every=8, until=_LONG)),
        (Check(420, (_LORA,)), Check(_LONG, (_LORA,))),
    ),
)

_NO_TOKEN = {vllm(f"{kind}_tokens_total"): counter(100.0, (300, 0.0)) for kind in ("prompt", "generation")}

_ANSWERS = (
    Scene(
        "an engine that died and whose server says so with a 500",
        {**outcomes("error", 1.0), **_NO_TOKEN, http("5xx"): counter(PER_S)},
        (Check(900, (), only=_DEAD),),
    ),
    Scene(
        "streams that fail after their first tokens, under a 200",
        {**outcomes("error", 1.0), http("2xx"): counter(PER_S)},
        (Check(900, (), only=_DEAD),),
    ),
    Scene(
        "stuck but up: 8 of 8 run, 16 wait, and no counter moves",
        {
            **{
                name: counter(0, start=1000)
                for name, course in HEALTHY.items()
                if course.counts and "vllm:" in name and name != _CORRUPTED
            },
            _UTILIZATION: gauge(1),
            CAPACITY_WAITING: gauge(16),
            _WAITING: gauge(16),
            own("engine_stalled", of="engine"): gauge(0, (60, 1)),
        },
        # Alertmanager mutes the two that read the frozen gauges.
        (Check(900, (critical("VLLMEngineStalled"), _EXHAUSTED, _NEAR)),),
    ),
    Scene(
        "the last busy server of a job leaves, and nobody mends it for seven hours",
        ended(HEALTHY, 600),
        (Check(7 * _HOUR, (warning("VLLMAllTargetsGone"),)),),
    ),
    Scene(
        "a vLLM without what newer ones show",
        dict.fromkeys(
            name
            for name in HEALTHY
            if any(new in name for new in ("by_reason", "sleep_state", "corrupted", "prefix_cache"))
        ),
        (Check(_LONG),),
    ),
)

_TARGETS = (
    Scene(
        "an engine that died with work in hand: the work stands there for good, every answer is an error",
        {
            **outcomes("error", 1.0),
            **{vllm(f"{kind}_tokens_total"): counter(100.0, (600, 0.0)) for kind in ("prompt", "generation")},
            http("2xx"): counter(PER_S),
        },
        # A window of three minutes without a token, and a minute of that.
        (Check(900, (_DEAD,), only=_DEAD),),
    ),
    Scene(
        "an engine that hangs and whose clients give up: no error of the server's",
        {
            **outcomes("timeout", 1.0),
            **{vllm(f"{kind}_tokens_total"): counter(100.0, (600, 0.0)) for kind in ("prompt", "generation")},
            http("2xx"): counter(PER_S),
        },
        (Check(1200, (), only=_DEAD),),
    ),
    Scene(
        "a model that loads for ten minutes, and then serves",
        {
            own("scrape_success"): gauge(0, (600, 1)),
            own("scrape_failures_total", 'reason="connection"'): counter(0.2, (600, 0.0)),
            **{
                name: Course(((600, rate),), counts=course.counts)
                for name, course in HEALTHY.items()
                if name.startswith("vllm:")
                for _, rate in course.parts
            },
        },
        (Check(300), Check(600), Check(_LONG)),
    ),
    Scene(
        "a model that never comes up",
        {
            **dict.fromkeys(ended(HEALTHY, 0, names="vllm:")),
            own("scrape_success"): gauge(0),
            own("scrape_failures_total", 'reason="connection"'): counter(0.2),
        },
        (Check(720), Check(_LONG, (critical("VLLMTargetDown"),))),
    ),
    Scene(
        "a swap: the old server is drained and leaves, the new one serves",
        {
            **ended({**HEALTHY, vllm("num_requests_running"): gauge(4, (1200, 0))}, 1500),
            **from_instance(
                {
                    name: Course(((900, course.parts[0][1]),), course.counts)
                    for name, course in HEALTHY.items()
                },
                "b:9809",
            ),
        },
        (Check(1500), Check(1650), Check(_LONG)),
    ),
    Scene(
        "a sidecar that says nothing of why it has no state",
        {**ended(HEALTHY, 600, names="vllm:"), own("scrape_success"): gauge(1, (600, 0))},
        (Check(_LONG, (warning("VLLMObserveScrapeFailing"),)),),
    ),
    Scene(
        "a sidecar that follows no request log",
        {
            own("log_lag_seconds"): None,
            own("log_lines_total"): counter(0),
            own("join_closed_total", 'parts="both"'): counter(0),
            own("join_closed_total", 'parts="engine"'): counter(PER_S),
        },
        (Check(_LONG),),
    ),
)

_SHARES = (
    Scene(
        "half of the requests fail, all of them their clients' fault",
        {**outcomes("error", 0.5), _CLIENTS_FAULT: counter(PER_S / 2)},
        (Check(_HOUR),),
    ),
    Scene(
        "one request every five minutes, and it fails",
        {
            **{
                name: counter(0)
                for name, course in HEALTHY.items()
                if course.counts and "requests_total" in name
            },
            _ERRORS: counter(1 / 300),
        },
        # Nobody is woken; the day's budget is gone all the same.
        (Check(600), Check(_HOUR, burning("VLLMAvailabilityBudgetBurn", ServiceClass.INTERACTIVE, below=4))),
    ),
    Scene(
        "some minutes in which every first token is late: over in the short window, not in the long ones",
        histogram(
            FELT,
            {2.5: 0.0, 30.0: 1.0},
            rates=((0, PER_S),),
        )
        | {
            series: counter(PER_S, (_HOUR, 0.0), (_HOUR + 270, PER_S))
            for series in first_tokens_late(0.0, 2.5)
            if 'le="2.5"' in series
        },
        (
            Check(_HOUR + 270),
            Check(_HOUR + 600, burning(_FIRST_TOKENS, ServiceClass.INTERACTIVE, below=1.5)),
        ),
    ),
    Scene(
        "a target that Prometheus 2 keeps as 30",
        {
            **of_class(ServiceClass.BATCH),
            **{
                series.replace('le="30.0"', 'le="30"'): course
                for series, course in first_tokens_late(
                    0.5, thresholds.TARGETS[ServiceClass.BATCH].ttft
                ).items()
            },
            **dict.fromkeys(series for series in HEALTHY if 'le="30.0"' in series),
        },
        (Check(300, burning(_FIRST_TOKENS, ServiceClass.BATCH, below=10)),),
    ),
    *(
        Scene(
            f"buckets that all end below the target, and a mean {where} it: {rule.alert}, {rule.service_class}",
            {**of_class(ServiceClass(rule.service_class)), **beyond_buckets(name, mean)},
            (Check(STEP + 300, (rule,) if mean > target else (), only=rule),),
        )
        for name, rule, target in (
            ("time_to_first_token_seconds", _LATE, thresholds.TARGETS[ServiceClass.BATCH].ttft),
            ("inter_token_latency_seconds", _SLOW, thresholds.TARGETS[ServiceClass.INTERACTIVE].tpot),
            ("inter_token_latency_seconds", _SLOW_BATCH, thresholds.TARGETS[ServiceClass.BATCH].tpot),
            ("time_to_first_token_seconds", _LATE_READER, thresholds.TARGETS[ServiceClass.INTERACTIVE].ttft),
        )
        for where, mean in (("over", over(target)), ("under", under(target)))
    ),
    Scene(
        "first tokens jump, and stay below what a reader notices",
        surge(0.1, 0.9 * thresholds.TTFT_SURGE_FLOOR_S),
        (Check(_HOUR + 900),),
    ),
    Scene(
        "five times the batch: slower for each, more tokens in all",
        {
            vllm("num_requests_running"): gauge(4, (_HOUR, 20)),
            TOKENS: counter(400.0, (_HOUR, 450.0)),
        },
        (Check(_HOUR + 1200),),
    ),
    Scene(
        "a server whose class nobody tells",
        {target_info(ServiceClass.INTERACTIVE): None, KV: gauge(0.97)},
        (Check(_HOUR, (warning("VLLMKVCacheNearFull"),)),),
    ),
    Scene(
        "a rollout without prefix caching: nothing is asked of it any more",
        {
            vllm("prefix_cache_queries_total"): counter(2000.0, (_HOUR, 0.0)),
            vllm("prefix_cache_hits_total"): counter(1000.0, (_HOUR, 0.0)),
        },
        (Check(_HOUR + 1500, (warning("VLLMPrefixCacheHitRateDropped"),)),),
    ),
)


def _an_hour_late(service_class: ServiceClass) -> Page:
    """No first token of an hour comes in time, and all of them do from then on."""
    late = first_tokens_late(1.0, thresholds.TARGETS[service_class].ttft)
    return {name: counter(course.parts[0][1] or 0.0, (_HOUR, PER_S)) for name, course in late.items()}


def _slower(pace: float) -> tuple[Identity, ...]:
    return (
        *burning(_FIRST_TOKENS, ServiceClass.INTERACTIVE, below=pace),
        *burning(_FIRST_TOKENS, ServiceClass.BATCH, below=pace),
        *burning("VLLMAvailabilityBudgetBurn", ServiceClass.INTERACTIVE, below=pace),
    )


#: What goes on for a while after its end.
_STILL = (critical("VLLMRequestErrorsHigh"),)
#: Two servers, one of each class: whose users wait decides who is told of a job's failures. Each short window
#: ends its own alarm, while the long one is still full.
_ENDED = Scene(
    "an hour in which all requests are late or fail, and none after it",
    {
        **_an_hour_late(ServiceClass.INTERACTIVE),
        **{
            name.replace('"a:9809"', '"b:9809"').replace("llama", "qwen"): course
            for name, course in {
                **_an_hour_late(ServiceClass.BATCH),
                target_info(ServiceClass.BATCH): gauge(1),
                own("requests_total", 'profile="assistant",outcome="ok"', of="model"): counter(0, start=1),
            }.items()
        },
        own("requests_total", 'profile="assistant",outcome="ok"', of="model"): counter(0, (_HOUR, PER_S)),
        own("requests_total", 'profile="assistant",outcome="timeout"', of="model"): counter(
            PER_S, (_HOUR, 0.0)
        ),
    },
    tuple(
        # The last five minutes of a longer window are still told of when it begins.
        Check(
            _HOUR + rate.short + (300 if number else 0) + STEP,
            (*_slower(rate.factor), *(() if number else _STILL)),
        )
        for number, rate in enumerate(thresholds.BURN_RATES)
    ),
)

EDGES = (
    *_SLOTS,
    *_GAUGES,
    *COUNTERS,
    *BIRTHS,
    *WITHOUT_LOG,
    *_ANSWERS,
    *UNREADABLE,
    *_TARGETS,
    *_SHARES,
    _ENDED,
    *GPU_EDGES,
)
