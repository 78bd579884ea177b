"""Error budgets: every pace at which they burn."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.promql import span
from vllm_observe.alerts.proofs.availability import outcomes
from vllm_observe.alerts.proofs.course import STEP, Page
from vllm_observe.alerts.proofs.latency import of_class
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, changed, from_instance, histogram, own
from vllm_observe.alerts.proofs.proof import Identity, Proof, critical, over, under
from vllm_observe.alerts.rule import Severity
from vllm_observe.model import ServiceClass
from vllm_observe.thresholds import (
    AVAILABILITY_OBJECTIVE,
    BURN_RATES,
    ERRORS_HIGH,
    JUDGED_MIN_REQUESTS,
    TARGETS,
    TTFT_OBJECTIVE,
    BurnRate,
)

__all__ = ["FELT", "SERVICE_LEVELS", "burning", "first_tokens", "first_tokens_late"]

#: Seconds of the shortest window: the others are sums of such.
_STRETCH = 300
FELT = own("request_ttft_seconds", 'profile="assistant"', of="model")


def burning(alert: str, service_class: ServiceClass, *, below: float) -> tuple[Identity, ...]:
    """The rules of a budget that burns at less than a pace."""
    return tuple(_identity(alert, service_class, rate) for rate in BURN_RATES if rate.factor < below)


def _identity(alert: str, service_class: ServiceClass, rate: BurnRate) -> Identity:
    severity = Severity.CRITICAL if rate.pages else Severity.WARNING
    return Identity(severity, alert, span(rate.long), service_class.value)


def first_tokens_late(share: float, target: float, *, told_by: str = FELT, per_s: float = PER_S) -> Page:
    """A service a share of whose first tokens comes after the target."""
    shares = {bound: 1 - share if bound <= target else 1.0 for bound in (2.5, 30.0)}
    return histogram(told_by, shares, rates=((0, per_s),))


def _onset(rate: BurnRate) -> int:
    """When enough requests are counted: at once, or at the end of the first five minutes of a longer window."""
    return STEP if rate.short == _STRETCH else _STRETCH


def _besides(alert: str, service_class: ServiceClass, rate: BurnRate) -> tuple[Identity, ...]:
    """The slower paces that are told as soon as this one is."""
    if rate.short == _STRETCH:
        return ()
    return burning(alert, service_class, below=rate.factor)


def _full(rate: BurnRate) -> int:
    """When the short window holds all that it can, and no moment at which a stretch of it ends."""
    return 2 * rate.short + STEP


def _few(seconds: int) -> float:
    """Requests a second, just too few of them within that time to be judged."""
    return under(JUDGED_MIN_REQUESTS / seconds)


def _of_other_class(service_class: ServiceClass) -> Page:
    """A second server of the same model, with all the requests, that is of the other class."""
    (other,) = set(ServiceClass) - {service_class}
    page = from_instance(changed(HEALTHY, of_class(other)), "b:9809")
    needed = ("request_ttft", "requests_total", "target_info")
    return {name: course for name, course in page.items() if any(part in name for part in needed)}


def first_tokens(service_class: ServiceClass, *, told_by: str = FELT) -> Iterator[Proof]:
    """Every pace at which the budget of late first tokens burns."""
    alert, target = "VLLMTimeToFirstTokenBudgetBurn", TARGETS[service_class].ttft
    for rate in BURN_RATES:
        bound = rate.factor * (1 - TTFT_OBJECTIVE)
        slower = _besides(alert, service_class, rate)
        yield Proof(
            rule=_identity(alert, service_class, rate),
            onset=_onset(rate),
            guarded_after=_full(rate),
            fires={**of_class(service_class), **first_tokens_late(over(bound), target, told_by=told_by)},
            beside=slower,
            quiet={**of_class(service_class), **first_tokens_late(under(bound), target, told_by=told_by)},
            quiet_beside=slower,
            guarded={
                "for want of requests to it": {
                    **first_tokens_late(1.0, target, told_by=told_by, per_s=_few(rate.short)),
                    **(_of_other_class(service_class) if told_by == FELT else {}),
                }
            },
        )


def _availability() -> Iterator[Proof]:
    alert = "VLLMAvailabilityBudgetBurn"
    for rate in BURN_RATES:
        bound = rate.factor * (1 - AVAILABILITY_OBJECTIVE)
        slower = _besides(alert, ServiceClass.INTERACTIVE, rate)
        if slower and under(bound) > ERRORS_HIGH:
            slower += (critical("VLLMRequestErrorsHigh"),)
        yield Proof(
            rule=_identity(alert, ServiceClass.INTERACTIVE, rate),
            onset=_onset(rate),
            guarded_after=_full(rate),
            fires=outcomes("timeout", over(bound)),
            beside=slower,
            quiet=outcomes("timeout", under(bound)),
            quiet_beside=slower,
            guarded={"for want of requests": outcomes("timeout", 1.0, per_s=_few(rate.short))},
        )


SERVICE_LEVELS = (
    *(proof for service_class in ServiceClass for proof in first_tokens(service_class)),
    *_availability(),
)
