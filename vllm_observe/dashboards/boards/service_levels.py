"""What the service promises, how much of it was kept, and how fast the rest of the error budget goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vllm_observe.dashboards.boards.common import ALL, MANY, by_profile
from vllm_observe.dashboards.metrics import Metric, own, vllm
from vllm_observe.dashboards.panels import (
    Bands,
    BarGauge,
    Board,
    Colour,
    Panel,
    Query,
    Row,
    TimeSeries,
    Unit,
    below,
)
from vllm_observe.dashboards.queries import (
    Expr,
    bottom,
    calculate,
    complement,
    first_of,
    of_class,
    rate,
    ratio,
    rounded,
    span,
    sum_by,
    top,
)
from vllm_observe.model import ServiceClass
from vllm_observe.thresholds import AVAILABILITY_OBJECTIVE, BURN_RATES, TARGETS, TTFT_OBJECTIVE

__all__ = ["SERVICE_LEVELS"]

#: A share of bad requests over a window.
_Bad = Callable[[str], Expr]

#: The period of the objectives.
_BUDGET = span(30 * 86_400)
_NOW = "$__rate_interval"

_BURN_LINES = Bands(
    Colour.GOOD,
    tuple(sorted((burn.factor, Colour.CRITICAL if burn.pages else Colour.WARNING) for burn in BURN_RATES)),
    line=True,
)


def _late(service_class: ServiceClass, window: str) -> Expr:
    """Return the share of first tokens after the class's target, as the alert asks it.

    As users felt it, from buckets of ours that hold every target; else as vLLM measured it, whose buckets
    hold the interactive one.
    """
    felt = _beyond(own("request_ttft_seconds"), service_class, window)
    if service_class is not ServiceClass.INTERACTIVE:
        return felt
    return first_of(felt, _beyond(vllm("ttft"), service_class, window), on=("model_name",))


def _beyond(ttft: Metric, service_class: ServiceClass, window: str) -> Expr:
    target = f"{TARGETS[service_class].ttft:g}"
    # Prometheus 2 keeps a bound as it was exposed, 30 or 30.0; Prometheus 3 writes 30.0.
    bound = 'le=~"{}([.]0)?"'.format(target.replace(".", "[.]"))
    in_time, all_of_them = (
        sum_by(of_class(vector, service_class), "model_name")
        for vector in (
            rate(ttft, bound, part="_bucket", window=window),
            rate(ttft, part="_count", window=window),
        )
    )
    return ratio(calculate(all_of_them, "-", in_time), all_of_them)


def _failed(window: str) -> Expr:
    """Return the share of requests that failed through no fault of their clients, as the alert asks it.

    Requests that a client asked wrongly, or left before their end, count neither way.
    """
    requests = own("requests_total")
    wrong = sum_by(rate(own("slow_requests_total"), 'cause="client_error"', window=window), "model_name")
    failed, ended = (
        calculate(sum_by(rate(requests, outcome, window=window), "model_name"), "-", wrong)
        for outcome in ('outcome=~"error|timeout|rejected"', 'outcome!="abort"')
    )
    return ratio(failed, ended)


def _burn(bad: Expr, objective: float) -> Expr:
    """Return how many times faster than allowed the budget goes."""
    return rounded(calculate(bad, "/", round(1 - objective, 9)), 0.001)


def _level(name: str, bad: _Bad, objective: float, told: str, first: str) -> tuple[Panel, ...]:
    """Return the panels of one promise."""
    return (
        TimeSeries(
            title=f"{name}: kept",
            shows=f"Share of requests {told}, by model; the line is the objective.",
            means="A fall below the line uses more of the error budget than there is for that time.",
            first=first,
            unit=Unit.RATIO,
            top_value=1,
            low_value=1 - 4 * (1 - objective),  # from 0 on, the objective would lie on the upper edge
            bands=below(objective),
            queries=(Query(bottom(MANY, complement(bad(_NOW))), "{{model_name}}"),),
        ),
        TimeSeries(
            title=f"{name}: burn rate",
            shows="How many times faster than allowed the error budget goes, over the long windows of the "
            "alerts. The lines are where each alert begins, if its short window agrees.",
            means="At 1 the budget of 30 days lasts 30 days; at 14.4, two.",
            first=first,
            unit=Unit.FACTOR,
            top_value=1,
            bands=_BURN_LINES,
            queries=tuple(
                Query(
                    top(MANY, _burn(bad(span(burn.long)), objective)),
                    f"{{{{model_name}}}} {span(burn.long)} (alert at {burn.factor:g})",
                )
                for burn in BURN_RATES
            ),
        ),
        BarGauge(
            title=f"{name}: budget left",
            shows="What is left of the error budget of 30 days, or of as long as Prometheus keeps its data.",
            means="Below 0 the objective is missed.",
            first="with little left, put off what is risky.",
            unit=Unit.RATIO,
            top_value=1,
            bands=below(0.5, 0, line=False),
            queries=(Query(bottom(MANY, complement(_burn(bad(_BUDGET), objective))), "{{model_name}}"),),
        ),
    )


def _first_tokens(service_class: ServiceClass) -> Row:
    targets = TARGETS[service_class]
    return Row(
        f"First tokens of {service_class.value} servers",
        f"Is the first token there within {targets.ttft:g} s, for {TTFT_OBJECTIVE:.0%} of the requests? As users "
        "felt it; where no request log tells, as vLLM measured it.",
        _level(
            f"First tokens, {service_class.value}",
            partial(_late, service_class),
            TTFT_OBJECTIVE,
            f"whose first token came within {targets.ttft:g} s",
            "see the causes of slow requests on the requests board.",
        ),
        collapsed=service_class is not ServiceClass.INTERACTIVE,
    )


_TARGETS_MET = Row(
    "Are the targets met?",
    "Each request against the targets of its server's class, as its user felt it.",
    (
        TimeSeries(
            title="Targets met",
            shows="Share of the requests that met each latency target: first token (ttft), pace (tpot), whole "
            "(e2e, where one is set).",
            means="ttft alone is waiting or prefill; tpot alone is a slow or crowded decode.",
            first="see the causes on the requests board.",
            unit=Unit.RATIO,
            top_value=1,
            width=12,
            bands=below(TTFT_OBJECTIVE),
            queries=(
                Query(
                    bottom(
                        MANY,
                        ratio(
                            sum_by(rate(own("request_targets_total"), 'met="true"'), "model_name", "target"),
                            sum_by(rate(own("request_targets_total")), "model_name", "target"),
                        ),
                    ),
                    "{{model_name}} {{target}}",
                ),
            ),
        ),
        TimeSeries(
            title="Targets met by profile",
            shows="Share of each profile's requests whose first token was in time.",
            means="One profile below the others asks for more than they do.",
            first="pick it at the top of the requests board.",
            unit=Unit.RATIO,
            top_value=1,
            width=12,
            bands=below(TTFT_OBJECTIVE),
            queries=(
                by_profile(
                    bottom(
                        MANY,
                        ratio(
                            sum_by(
                                rate(own("request_targets_total"), 'target="ttft"', 'met="true"'), "profile"
                            ),
                            sum_by(rate(own("request_targets_total"), 'target="ttft"'), "profile"),
                        ),
                    )
                ),
            ),
        ),
    ),
)

_AVAILABILITY = Row(
    "Availability",
    f"Are {AVAILABILITY_OBJECTIVE:.0%} of the requests answered that could have been?",
    _level(
        "Availability",
        _failed,
        AVAILABILITY_OBJECTIVE,
        "that did not fail through the service's fault",
        "see the outcomes and causes on the requests board.",
    ),
)

SERVICE_LEVELS = Board(
    name="service-levels",
    title="vLLM service levels",
    summary="What the service promises, how much of it was kept, and how fast the error budget goes.",
    rows=(_TARGETS_MET, *map(_first_tokens, ServiceClass), _AVAILABILITY),
    variables=ALL,
)
