"""Series that begin with a burst, since a label of theirs is there only from its first event on."""

from __future__ import annotations

from vllm_observe.alerts.proofs.course import STEP, Course, Page, counter, gauge
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, PLAIN, from_instance, http, own
from vllm_observe.alerts.proofs.proof import Check, Scene, critical, warning
from vllm_observe.alerts.proofs.service_levels import FELT

__all__ = ["BIRTHS", "PLAIN_BIRTHS"]

_AT = 3000
#: A first value is seen for what it is with the second sample, and then the rule holds for two minutes.
_SEEN = _AT + STEP + 120
_ERRORS, _LEFT = critical("VLLMRequestErrorsHigh"), warning("VLLMClientDisconnectsHigh")
_BURN = critical("VLLMTimeToFirstTokenBudgetBurn", "6h")
_OLD_5XX = counter(0.0, start=1e6)


def _born(value: float, at: int = _AT) -> Course:
    """A counter that is first seen at a value, and stays there."""
    return counter((at, 0.0), start=value)


def _of_new(name: str, label: str) -> str:
    return own(name, f'profile="new",{label}', of="model")


def _late_from_the_first(number: float) -> Page:
    felt = FELT.replace("assistant", "new")
    name, labels = felt.removesuffix("}").split("{")
    return {
        f"{name}_count{{{labels}}}": _born(number),
        f'{name}_bucket{{{labels},le="2.5"}}': _born(0),
        f'{name}_bucket{{{labels},le="+Inf"}}': _born(number),
    }


def _away(page: Page, since: int, until: int) -> Page:
    """A page that cannot be read for a while, and whose counters then stand where they stood."""
    return {
        name: Course(
            ((0, rate), (since, None), (until, rate)), course.counts, course.start or 500.0 * course.counts
        )
        for name, course in page.items()
        for _, rate in course.parts[:1]
    }


_SILENT = {
    own("requests_total", f'profile="assistant",outcome="{outcome}"', of="model"): counter(0)
    for outcome in ("ok", "error", "timeout", "rejected", "abort")
}
_BURST = {_of_new("requests_total", 'outcome="error"'): _born(500)}

BIRTHS = (
    Scene(
        "a profile that begins with a burst of failures",
        _BURST,
        (Check(_SEEN - 2 * STEP, (), only=_ERRORS), Check(_SEEN, (_ERRORS,), only=_ERRORS)),
    ),
    Scene(
        "a profile that begins with a burst of its clients' mistakes",
        {**_BURST, _of_new("slow_requests_total", 'cause="client_error"'): _born(500)},
        (Check(_SEEN), Check(_SEEN + 300)),
    ),
    Scene(
        "the first requests of all are few, and all fail",
        {**_SILENT, _of_new("requests_total", 'outcome="error"'): _born(9)},
        (Check(_SEEN, (), only=_ERRORS),),
    ),
    Scene(
        "the first requests of all fail",
        {**_SILENT, _of_new("requests_total", 'outcome="error"'): _born(10)},
        (Check(_SEEN, (_ERRORS,), only=_ERRORS),),
    ),
    Scene(
        "a profile whose clients leave from its beginning on",
        {_of_new("requests_total", 'outcome="abort"'): _born(500)},
        (Check(_AT + STEP + 240, (), only=_LEFT), Check(_AT + STEP + 300, (_LEFT,), only=_LEFT)),
    ),
    Scene(
        "a profile that begins with a burst of late first tokens",
        _late_from_the_first(6000),
        (Check(_AT, (), only=_BURN), Check(_AT + 330, (_BURN,), only=_BURN)),
    ),
    Scene(
        "failures of days ago, and none since",
        {own("requests_total", 'profile="assistant",outcome="error"', of="model"): counter(0, start=500)},
        (Check(STEP + 120), Check(_AT)),
    ),
    Scene(
        "a server under a new name, which brings its failures of days ago",
        from_instance(
            {
                own("build_info"): gauge((_AT, 1)),
                own("requests_total", 'profile="assistant",outcome="error"', of="model"): _born(500),
            },
            "renamed:9809",
        ),
        (Check(_SEEN, (), only=_ERRORS), Check(_AT + 600, (), only=_ERRORS)),
    ),
    Scene(
        "a sidecar that cannot be reached for ten minutes, and has failures of days ago",
        _away({name: course for name, course in HEALTHY.items() if "vllm_observe" in name}, 2400, _AT),
        (Check(_SEEN, (), only=_ERRORS), Check(_AT + 450, (), only=_ERRORS)),
    ),
)

#: vLLM counts its answers of a status from the first one on.
PLAIN_BIRTHS = (
    Scene(
        "a vLLM whose first answers of 5xx are a burst",
        {http("5xx"): _born(500)},
        (Check(_SEEN - 2 * STEP), Check(_SEEN, (_ERRORS,))),
    ),
    Scene(
        "a vLLM all of whose first answers are 5xx",
        {http("5xx"): _born(10), http("2xx"): None},
        (Check(_SEEN, (_ERRORS,)),),
    ),
    Scene(
        "a vLLM whose first answers are few, and 5xx",
        {http("5xx"): _born(9), http("2xx"): None},
        (Check(_SEEN),),
    ),
    Scene(
        "answers of 5xx of days ago, and none since",
        {http("5xx"): _OLD_5XX},
        (Check(STEP + 120), Check(_AT)),
    ),
    Scene(
        "failures now beside many answers of days ago",
        {http("2xx"): counter(PER_S, start=1e6), http("5xx"): counter(PER_S, start=1e6)},
        (Check(_AT, (_ERRORS,)),),
    ),
    Scene(
        "few answers now beside many of days ago",
        {http("2xx"): counter(0, start=1e6), http("5xx"): counter(0.01, start=1e6)},
        (Check(_AT),),
    ),
    *(
        Scene(
            f"a vLLM under a new name, which brings its answers of days ago, and {says}",
            {
                **dict.fromkeys(PLAIN),
                **from_instance(
                    {
                        **{
                            name: Course(((_AT, course.parts[0][1]),), course.counts)
                            for name, course in PLAIN.items()
                        },
                        **{
                            http(status): Course(((_AT, rate),), counts=True, start=1e6)
                            for status, rate in now.items()
                        },
                    },
                    "renamed:9809",
                ),
            },
            (Check(_AT + 240, firing),),
        )
        for says, now, firing in (
            ("serves", {"2xx": PER_S, "5xx": 0.0}, ()),
            ("fails", {"2xx": 0.9 * PER_S, "5xx": 0.1 * PER_S}, (_ERRORS,)),
            ("hardly is asked", {"2xx": 0.0, "5xx": 0.01}, ()),
        )
    ),
)
