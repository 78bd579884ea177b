"""A sidecar that joins no requests, since it has no request log: vLLM's own counters tell what they know."""

from __future__ import annotations

from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter
from vllm_observe.alerts.proofs.latency import of_class
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, changed, from_instance, histogram, http, own, vllm
from vllm_observe.alerts.proofs.proof import Check, Scene, critical, over, under
from vllm_observe.alerts.proofs.service_levels import first_tokens_late
from vllm_observe.model import ServiceClass
from vllm_observe.thresholds import AVAILABILITY_OBJECTIVE, BURN_RATES, ERRORS_HIGH, TTFT_OBJECTIVE

__all__ = ["WITHOUT_LOG"]

_LONG = 2100
_FAST = BURN_RATES[0].factor
_ERRORS = critical("VLLMRequestErrorsHigh")
_BURN = critical("VLLMTimeToFirstTokenBudgetBurn", "1h")
_BATCH_BURN = critical("VLLMTimeToFirstTokenBudgetBurn", "1h", ServiceClass.BATCH.value)
_UNAVAILABLE = critical("VLLMAvailabilityBudgetBurn", "1h")
_ENGINE = vllm("time_to_first_token_seconds")
_FELT = ("vllm_observe_requests", "vllm_observe_slow", "vllm_observe_request_ttft")
#: A sidecar's page without a log: all that requests are counted by stands at 0.
_BARE: dict[str, Course | None] = {
    **{name: counter(0) for name in HEALTHY if name.startswith(_FELT)},
    own("log_lag_seconds"): None,
    own("log_lines_total"): counter(0),
    own("join_closed_total", 'parts="both"'): counter(0),
}


def _answers(share: float) -> Page:
    """A server of whose answers a share is 5xx."""
    return {http("2xx"): counter(PER_S * (1 - share)), http("5xx"): counter(PER_S * share)}


def _late(share: float) -> Page:
    return first_tokens_late(share, 2.5, told_by=_ENGINE)


def _after(bound: float, share: float) -> dict[str, Course | None]:
    """A batch server a share of whose first tokens come after a bound of vLLM's."""
    return {
        **of_class(ServiceClass.BATCH),
        **histogram(_ENGINE, {bound: 1 - share}, mean=((0, 5.0),)),
    }


def _second(page: Page) -> Page:
    """Another server of the job, of which Prometheus sees this."""
    return from_instance(page, "b:9809")


_FAILS, _SERVES = over(ERRORS_HIGH), under(ERRORS_HIGH)
_SLOW, _IN_TIME = over(_FAST * (1 - TTFT_OBJECTIVE)), under(_FAST * (1 - TTFT_OBJECTIVE))
_GONE, _THERE = over(_FAST * (1 - AVAILABILITY_OBJECTIVE)), under(_FAST * (1 - AVAILABILITY_OBJECTIVE))

WITHOUT_LOG = (
    Scene("no request log, and all is well", {**_BARE, **_answers(0.0)}, (Check(_LONG),)),
    Scene(
        "no request log, and no answer was a 5xx yet", {**_BARE, http("2xx"): counter(PER_S)}, (Check(_LONG),)
    ),
    Scene(
        "no request log, and a share of the answers is 5xx",
        {**_BARE, **_answers(_FAILS)},
        (Check(STEP + 60, (), only=_ERRORS), Check(STEP + 120, (_ERRORS,), only=_ERRORS)),
    ),
    Scene(
        "no request log, and hardly too few of the answers are 5xx",
        {**_BARE, **_answers(_SERVES)},
        (Check(_LONG, (), only=_ERRORS),),
    ),
    *(
        Scene(
            f"no request log, and answers of 5xx burn the budget {how} enough",
            {**_BARE, **_answers(share)},
            (Check(_LONG, firing, only=_UNAVAILABLE),),
        )
        for how, share, firing in (("fast", _GONE, (_UNAVAILABLE,)), ("not fast", _THERE, ()))
    ),
    *(
        Scene(
            f"no request log, and first tokens that are late for {how} of the engine's requests",
            {**_BARE, **_late(share)},
            (Check(STEP, firing, only=_BURN),),
        )
        for how, share, firing in (("enough", _SLOW, (_BURN,)), ("too few", _IN_TIME, ()))
    ),
    *(
        Scene(
            f"no request log, and a batch server {how} of whose first tokens come after vLLM's next bound",
            {**_BARE, **_after(40.0, share)},
            (Check(STEP, firing, only=_BATCH_BURN),),
        )
        for how, share, firing in (("most", _SLOW, (_BATCH_BURN,)), ("too few", _IN_TIME, ()))
    ),
    Scene(
        "no request log, and a batch server of an old vLLM, whose bounds end at 10 s: nothing can tell",
        {**_BARE, **_after(10.0, 1.0)},
        (Check(_LONG, (), only=_BATCH_BURN),),
    ),
    Scene(
        "a request log that says all is well: vLLM's own counters are not asked",
        {**_answers(1.0), **_late(1.0)},
        (Check(STEP + 120, (), only=_ERRORS), Check(STEP + 120, (), only=_BURN)),
    ),
    Scene(
        "one of two servers has no request log, and fails",
        _second(changed(HEALTHY, {**_BARE, **_answers(1.0)})),
        (Check(STEP + 120, (_ERRORS,), only=_ERRORS),),
    ),
)
