"""Service levels: how fast the error budget of 30 days goes, over two windows at once.

How many requests are judged, and how many of them are bad, is recorded over five minutes. A longer window is
the sum of those: dear to ask for again and again otherwise, and each stretch of it was told as it was then, by
the servers that were there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from vllm_observe.alerts.buckets import VLLM_TTFT, first_bound, within
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.outcomes import attempted, failed, told_by
from vllm_observe.alerts.promql import MODEL, SERVICE, Scope, counted, span
from vllm_observe.alerts.rule import Alert, Board, Group, Recording, Severity
from vllm_observe.model import ServiceClass
from vllm_observe.thresholds import BURN_RATES, JUDGED_MIN_REQUESTS, BurnRate

__all__ = ["service_levels"]


_STRETCH_S = 300
_STRETCH = span(_STRETCH_S)


@dataclass(frozen=True, kw_only=True)
class _Level:
    """One promise: how many requests break it, and how many are judged, by service, over five minutes."""

    name: str
    alert: str
    objective: float
    bad: str
    judged: str
    told: str
    first: str
    service_class: ServiceClass | None = None

    @property
    def labels(self) -> tuple[tuple[str, str], ...]:
        return (("service_class", self.service_class.value),) if self.service_class else ()

    def recorded(self, what: str) -> str:
        matchers = ",".join(f'{name}="{value}"' for name, value in self.labels)
        return f"vllm_observe:{self.name}:{what}" + (f"{{{matchers}}}" if matchers else "")

    def ratio(self, seconds: int) -> str:
        return self.recorded(f"ratio_rate{span(seconds)}")

    def recordings(self) -> Iterable[Recording]:
        counts = {"bad5m": self.bad, "judged5m": self.judged}
        for what, expr in counts.items():
            yield self._recording(what, expr)
        for seconds in sorted({window for rate in BURN_RATES for window in (rate.short, rate.long)}):
            bad, judged = (f"sum_over_time({self.recorded(what)}[{span(seconds)}])" for what in counts)
            if seconds == _STRETCH_S:
                bad, judged = map(self.recorded, counts)
            yield self._recording(f"ratio_rate{span(seconds)}", f"{bad} / ({judged} > 0)")

    def _recording(self, what: str, expr: str) -> Recording:
        return Recording(name=f"vllm_observe:{self.name}:{what}", expr=expr, labels=self.labels)

    def burns(self) -> Iterable[Alert]:
        return (self._burn(rate) for rate in BURN_RATES)

    def _number(self, seconds: int) -> str:
        """How many requests are judged within a window: its stretches one by one, whenever rules are evaluated."""
        judged = self.recorded("judged5m")
        return judged if seconds == _STRETCH_S else f"sum_over_time({judged}[{span(seconds)}:{_STRETCH}])"

    def _burn(self, rate: BurnRate) -> Alert:
        bound = f"{rate.factor:g} * {round(1 - self.objective, 9):g}"
        return Alert(
            name=self.alert,
            expr=f"{self.ratio(rate.long)} > {bound}\n"
            f"and {self.ratio(rate.short)} > {bound}\n"
            # A share of few requests says little: one failure at night must wake nobody.
            f"and {self._number(rate.short)} >= {JUDGED_MIN_REQUESTS}",
            hold=0,
            severity=Severity.CRITICAL if rate.pages else Severity.WARNING,
            summary=f"{{model}}: {{percent}} of the requests of {span(rate.long)} {self.told}",
            description=f"The objective is {self.objective:.4g} over 30 days; at this pace, {rate.factor:g} "
            f"times what it allows, the budget is gone within {30 / rate.factor:.2g} days. {self.first}",
            board=Board.SERVICE_LEVELS,
            service_class=self.service_class,
            labels=(("window", span(rate.long)),),
        )


def service_levels(options: RuleOptions) -> Group:
    """Return the rules about what the service promises."""
    levels = [_ttft(options, name) for name in options.classes]
    if options.behind_sidecar:
        levels.append(_availability(options))
    recordings = (recording for level in levels for recording in level.recordings())
    return Group("service-levels", (*recordings, *(alert for level in levels for alert in level.burns())))


def _ttft(options: RuleOptions, service_class: ServiceClass) -> _Level:
    target = options.targets[service_class].ttft
    # Of vLLM's own there may be no such bucket: the next one tells which are late for sure.
    own = partial(_first_tokens, options.scope, VLLM_TTFT, first_bound(VLLM_TTFT, target))
    felt = partial(_first_tokens, options.scope, options.ttft_histogram, target)

    def told(*, late: bool) -> str:
        if not options.behind_sidecar:
            return f"sum by ({SERVICE}) ({felt(late=late)})"
        only = options.of_class(service_class, _STRETCH)
        return told_by(options.scope, _STRETCH, log=felt(late=late), vllm=own(late=late), only=only)

    return _Level(
        name="slow_first_tokens",
        alert="VLLMTimeToFirstTokenBudgetBurn",
        objective=options.ttft_objective,
        bad=told(late=True),
        judged=told(late=False),
        told=f"had no first token within {target:g} s",
        first="First see which cause the slow requests have, then the engine that serves most of them.",
        service_class=service_class,
    )


def _first_tokens(scope: Scope, histogram: str, bound: float, *, late: bool) -> str:
    """How many first tokens came, or came after a bound in seconds, by model and server."""
    came = f"sum by ({MODEL}) ({counted(scope, _STRETCH, f'{histogram}_count')})"
    in_time = f"sum by ({MODEL}) ({counted(scope, _STRETCH, f'{histogram}_bucket', within(bound))})"
    return f"{came} - {in_time}" if late else came


def _availability(options: RuleOptions) -> _Level:
    return _Level(
        name="failed_requests",
        alert="VLLMAvailabilityBudgetBurn",
        objective=options.availability_objective,
        bad=failed(options.scope, _STRETCH),
        judged=attempted(options.scope, _STRETCH),
        told="failed through no fault of their clients",
        first="First see the outcomes and causes on the board, then one of those requests.",
    )
