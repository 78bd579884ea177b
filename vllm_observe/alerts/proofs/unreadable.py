"""Pages of vLLM's that a sidecar cannot read: whether vLLM is gone, or only its numbers."""

from __future__ import annotations

from vllm_observe.alerts.proofs.course import STEP, Page, counter, flicker, gauge
from vllm_observe.alerts.proofs.page import HEALTHY, PER_S, ended, own
from vllm_observe.alerts.proofs.proof import Check, Scene, critical, warning

__all__ = ["UNREADABLE"]

_LONG = 2100
_OK = own("requests_total", 'profile="assistant",outcome="ok"', of="model")
_DOWN, _UNREADABLE = critical("VLLMTargetDown"), warning("VLLMObserveScrapeFailing")


def _behind_a_proxy() -> Page:
    """A server before which a proxy stands that answers 503 for it."""
    return {
        **ended(HEALTHY, 600, names="vllm:"),
        own("scrape_success"): gauge(1, (600, 0)),
        own("scrape_failures_total", 'reason="http_server"'): counter(0, (600, 0.2)),
    }


UNREADABLE = (
    Scene(
        "a server before which a proxy answers 503 while it loads, and that never comes up",
        {
            **dict.fromkeys(ended(HEALTHY, 0, names="vllm:")),
            own("scrape_success"): gauge(0),
            own("scrape_failures_total", 'reason="http_server"'): counter(0.2),
            _OK: counter(0),
        },
        (Check(600), Check(_LONG, (_DOWN,))),
    ),
    Scene(
        "a server whose page wants a token that nobody gave, from its start on",
        {
            **dict.fromkeys(ended(HEALTHY, 0, names="vllm:")),
            own("scrape_success"): gauge(0),
            own("scrape_failures_total", 'reason="auth"'): counter(0.2),
        },
        (Check(600), Check(_LONG, (_UNREADABLE,))),
    ),
    Scene(
        "a proxy that answers 503 for a vLLM that is gone, and nobody asks it",
        {**_behind_a_proxy(), _OK: counter(0)},
        (Check(600 + STEP), Check(660, (_DOWN,)), Check(_LONG, (_DOWN,))),
    ),
    Scene(
        "a proxy that answers 503 for a vLLM that is gone, while its last requests are logged",
        {**_behind_a_proxy(), _OK: counter(PER_S, (600, 0.0))},
        (Check(720, (_UNREADABLE,)), Check(930, (_DOWN,))),
    ),
    Scene(
        "a page that lacks vLLM's metrics for good: one alert says it",
        {
            **ended(HEALTHY, 600, names="vllm:"),
            own("scrape_success"): gauge(1, (600, 0)),
            own("scrape_failures_total", 'reason="no_vllm_metrics"'): counter(0, (600, 0.2)),
        },
        (Check(_LONG, (warning("VLLMMetricsMissing"),)),),
    ),
    Scene(
        "a page that now and then lacks vLLM's metrics",
        {
            own("scrape_success"): flicker(1, 0, every=6, until=_LONG),
            own("scrape_failures_total", 'reason="no_vllm_metrics"'): counter(0.01),
        },
        (Check(_LONG),),
    ),
)
