"""Something breaks: the engine, the server, the app, or what observes them."""

from __future__ import annotations

from dataclasses import replace

from vllm_observe.model import Cause
from vllm_observe.sim.scenarios.incidents import Deed, Expected, Incident
from vllm_observe.sim.scenarios.settings import (
    END,
    ERRORS,
    ROOMY,
    START,
    TTFT,
    USUAL,
)
from vllm_observe.sim.scenarios.workloads import (
    ASSISTANT,
    SUMMARIZER,
    Manners,
    Rate,
    Sessions,
    Spread,
)

__all__ = ["FAULTS"]

_SLOW_GPU = replace(
    USUAL,
    name="slow-gpu",
    summary="The GPUs run at a sixth of their speed.",
    shows="Time per token far over the target with slots and KV cache to spare; no queue.",
    limits=ROOMY,
    incidents=(
        Incident(
            name="thermal throttling",
            start=START,
            end=END,
            deeds=(Deed(START, lambda it: it.slow_down(6.0)), Deed(END, lambda it: it.slow_down(1.0))),
            expected=Expected(
                causes=frozenset({Cause.DECODE_SLOW}),
                alerts=("VLLMInterTokenLatencyHigh", "VLLMThroughputCollapse"),
                allowed=(*TTFT, "VLLMClientDisconnectsHigh"),
            ),
        ),
    ),
)

_HANG = replace(
    USUAL,
    name="hang",
    summary="The engine makes no progress any more, and /health says 200.",
    shows="Token counters stand still with requests running; gauges frozen; clients give up.",
    incidents=(
        Incident(
            name="deadlock",
            start=START,
            end=END,
            deeds=(Deed(START, lambda it: it.hang()), Deed(END, lambda it: it.restart())),
            expected=Expected(
                causes=frozenset({Cause.ENGINE_ERROR}),
                alerts=("VLLMEngineStalled",),
                allowed=(*ERRORS, "VLLMClientDisconnectsHigh", "VLLMEngineRestarting", "VLLMTargetDown"),
            ),
        ),
    ),
)

_CRASH_LOOP = replace(
    USUAL,
    name="crash-loop",
    summary="The server dies and starts again every three minutes.",
    shows="Counters begin at 0 again and again; between, nothing answers while the model loads.",
    incidents=(
        Incident(
            name="crash loop",
            start=START,
            end=END,
            deeds=tuple(Deed(START + 180.0 * number, lambda it: it.restart()) for number in range(7)),
            expected=Expected(
                causes=frozenset({Cause.ENGINE_ERROR, Cause.REJECTED}),
                alerts=("VLLMEngineRestarting",),
                allowed=(*ERRORS, "VLLMTargetDown", "VLLMMetricsMissing", "VLLMObserveScrapeFailing"),
            ),
        ),
    ),
)

_BAD_DEPLOY = replace(
    USUAL,
    name="bad-deploy",
    summary="A new version answers a third of all requests with 500.",
    shows="Errors since the last start, the engine itself idle and sound.",
    incidents=(
        Incident(
            name="bad version",
            start=START,
            end=END,
            deeds=(
                Deed(START, lambda it: it.swap()),
                Deed(START, lambda it: it.fail_share(0.3)),
                Deed(END, lambda it: it.swap()),
                Deed(END, lambda it: it.fail_share(0.0)),
            ),
            expected=Expected(
                causes=frozenset({Cause.SERVER_ERROR}), alerts=ERRORS, allowed=("VLLMEngineRestarting",)
            ),
        ),
    ),
)

_LOG_STOPS = replace(
    USUAL,
    name="log-stops",
    summary="The request logs say nothing any more.",
    shows="The engine finishes requests of which no log tells.",
    incidents=(
        Incident(
            name="no log",
            start=START,
            end=END,
            deeds=(
                Deed(START, lambda it: it.stop_log(stopped=True)),
                Deed(END, lambda it: it.stop_log(stopped=False)),
            ),
            expected=Expected(
                alerts=("VLLMObserveRequestLogSilent",), allowed=("VLLMObserveJoinCoverageLow",)
            ),
        ),
    ),
)

_SCRAPE_FAILS = replace(
    USUAL,
    name="scrape-fails",
    summary="/metrics does not answer, though requests are served.",
    shows="No engine state at all, never an old one shown as new; the request logs go on.",
    incidents=(
        Incident(
            name="no metrics",
            start=START,
            end=END,
            deeds=(
                Deed(START, lambda it: it.fail_scrape(fails=True)),
                Deed(END, lambda it: it.fail_scrape(fails=False)),
            ),
            expected=Expected(
                alerts=("VLLMObserveScrapeFailing",), allowed=("VLLMTargetDown", "VLLMMetricsMissing")
            ),
        ),
    ),
)

_DEAD = replace(
    USUAL,
    name="dead-engine",
    summary="The engine core is dead, and every request is answered with 200 and an error.",
    shows="Answers, all 2xx, but no token and no finished request.",
    incidents=(
        Incident(
            name="dead engine",
            start=START,
            end=END,
            deeds=(Deed(START, lambda it: it.crash(200)), Deed(END, lambda it: it.restart())),
            expected=Expected(
                causes=frozenset({Cause.ENGINE_ERROR}),
                alerts=("VLLMAnswersWithoutTokens",),
                allowed=(*ERRORS, "VLLMEngineStalled", "VLLMEngineRestarting", "VLLMTargetDown"),
            ),
        ),
    ),
)

_SLOW_APP = replace(
    USUAL,
    name="slow-app",
    summary="Requests wait four seconds in the app before they reach vLLM.",
    shows="Users wait, and vLLM's own numbers are as ever.",
    incidents=(
        Incident(
            name="slow app",
            start=START,
            end=END,
            delay_s=4.0,
            expected=Expected(causes=frozenset({Cause.OUTSIDE_ENGINE}), allowed=TTFT),
        ),
    ),
)

_LEAVERS = replace(
    USUAL,
    name="clients-leave",
    summary="A front end closes its connections after three seconds.",
    shows="Disconnects that vLLM does not count; its finished requests fall.",
    incidents=(
        Incident(
            name="front-end bug",
            start=START,
            end=END,
            traffic=(
                Sessions(
                    name="new-front-end",
                    client="web",
                    profile=ASSISTANT,
                    rate=Rate(per_s=1.0),
                    manners=Manners(leaving=1.0, patience=Spread(median=3.0)),
                    since=START,
                    until=END,
                ),
            ),
            expected=Expected(
                causes=frozenset({Cause.CLIENT_DISCONNECTED}), alerts=("VLLMClientDisconnectsHigh",)
            ),
        ),
    ),
)

_OVERSIZED = replace(
    USUAL,
    name="oversized-prompts",
    summary="A client sends prompts that are longer than the model's context.",
    shows="Answers of 400 to one client; nobody else is touched.",
    incidents=(
        Incident(
            name="no truncation",
            start=START,
            end=END,
            traffic=(
                Sessions(
                    name="crawler",
                    client="crawler",
                    profile=SUMMARIZER,
                    rate=Rate(per_s=0.5),
                    manners=Manners(oversized=1.0),
                    since=START,
                    until=END,
                ),
            ),
            expected=Expected(causes=frozenset({Cause.CLIENT_ERROR})),
        ),
    ),
)

FAULTS = (
    _SLOW_GPU,
    _HANG,
    _CRASH_LOOP,
    _BAD_DEPLOY,
    _LOG_STOPS,
    _SCRAPE_FAILS,
    _DEAD,
    _SLOW_APP,
    _LEAVERS,
    _OVERSIZED,
)
