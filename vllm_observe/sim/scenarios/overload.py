"""More work than the server is made for: each in another way."""

from __future__ import annotations

from dataclasses import replace

from vllm_observe.model import BindingLimit, Cause
from vllm_observe.sim.scenarios.incidents import Deed, Expected, Incident
from vllm_observe.sim.scenarios.settings import (
    CALM,
    END,
    ERRORS,
    JOB,
    NARROW,
    PEOPLE,
    ROOMY,
    START,
    TTFT,
    USUAL,
    WRITER,
    people,
)
from vllm_observe.sim.scenarios.workloads import (
    ASSISTANT,
    CODER,
    SUMMARIZER,
    Manners,
    Rate,
    Sessions,
    Spread,
    Workers,
)

__all__ = ["OVERLOADS"]

_NIGHTLY_JOB = Workers(name="nightly-job", client="batch", profile=JOB, at_once=90, since=START, until=END)

_SLOTS_EXHAUSTED = replace(
    USUAL,
    name="slots-exhausted",
    summary="A batch job takes every slot.",
    shows="Running stands at max_num_seqs while others wait; people wait for a first token.",
    incidents=(
        Incident(
            name="batch job",
            start=START,
            end=END,
            traffic=(_NIGHTLY_JOB,),
            expected=Expected(
                causes=frozenset({Cause.QUEUE_SLOTS}),
                limit=BindingLimit.SLOTS,
                alerts=("VLLMSequenceSlotsExhausted", "VLLMSequenceSlotsNearLimit"),
                allowed=TTFT,
            ),
        ),
    ),
)

_KV_THRASHING = replace(
    USUAL,
    name="kv-thrashing",
    summary="Long answers outgrow the KV cache, and requests throw each other out of it.",
    shows="KV usage near 100 %, preemptions every second, slots left over.",
    limits=replace(ROOMY, num_gpu_blocks=8_000),
    incidents=(
        Incident(
            name="long answers",
            start=START,
            end=END,
            traffic=(
                Workers(name="novels", client="batch", profile=WRITER, at_once=100, since=START, until=END),
            ),
            expected=Expected(
                causes=frozenset({Cause.QUEUE_KV, Cause.PREEMPTED}),
                limit=BindingLimit.KV,
                alerts=("VLLMKVCacheNearFull", "VLLMKVCacheThrashing"),
                allowed=(*TTFT, "VLLMInterTokenLatencyHigh"),
            ),
        ),
    ),
)

_LONG_PROMPTS = replace(
    USUAL,
    name="long-prompt-flood",
    summary="Prompts of 100,000 tokens come every few seconds.",
    shows="Steps are full of prompt tokens; everybody's tokens come slowly, the flood's own first ones late.",
    limits=replace(ROOMY, max_model_len=131_072, num_gpu_blocks=80_000),
    incidents=(
        Incident(
            name="flood",
            start=START,
            end=END,
            traffic=(
                Sessions(
                    name="archive",
                    client="importer",
                    profile=replace(
                        SUMMARIZER,
                        context=Spread(median=90_000, sigma=0.1, most=110_000),
                        output=Spread(median=50),
                        stream=True,
                    ),
                    rate=Rate(per_s=0.15),
                    since=START,
                    until=END,
                ),
            ),
            expected=Expected(
                causes=frozenset({Cause.PREFILL_LONG, Cause.DECODE_SLOW, Cause.QUEUE_BUDGET}),
                limit=BindingLimit.TOKEN_BUDGET,
                alerts=("VLLMTimeToFirstTokenHigh",),
                allowed=(*TTFT, "VLLMInterTokenLatencyHigh", "VLLMThroughputCollapse"),
            ),
        ),
    ),
)

_RUNAWAY = replace(
    USUAL,
    name="runaway-outputs",
    summary="A new client's answers never stop before max_tokens.",
    shows="Slots fill up though no more requests come; the slow ones have thousands of output tokens.",
    limits=ROOMY,
    incidents=(
        Incident(
            name="answers without end",
            start=START,
            end=END,
            traffic=(
                Sessions(
                    name="agent",
                    client="agent",
                    profile=replace(
                        ASSISTANT, output=Spread(median=6000), max_tokens=4096, turns=Spread(median=1)
                    ),
                    rate=Rate(per_s=0.4),
                    since=START,
                    until=END,
                ),
            ),
            expected=Expected(causes=frozenset({Cause.DECODE_LONG})),
        ),
    ),
)

_RETRY_STORM = replace(
    USUAL,
    name="retry-storm",
    summary="The GPUs slow down, clients give up after 40 seconds and try again, three times each.",
    shows="Requests and retries rise while fewer and fewer are answered; the queue is of requests given up.",
    workload=people(1.5, manners=Manners(timeout_s=40.0, retries=3, backoff_s=0.5)),
    incidents=(
        Incident(
            name="retry storm",
            start=START,
            end=END,
            deeds=(Deed(START, lambda it: it.slow_down(4.0)), Deed(END, lambda it: it.slow_down(1.0))),
            expected=Expected(
                causes=frozenset({Cause.QUEUE_SLOTS, Cause.QUEUE_BUDGET, Cause.DECODE_SLOW}),
                alerts=ERRORS,  # the app's own timeouts: its log says so, and not that somebody left
                allowed=(
                    *TTFT,
                    "VLLMClientDisconnectsHigh",
                    "VLLMInterTokenLatencyHigh",
                    "VLLMSequenceSlotsExhausted",
                    "VLLMSequenceSlotsNearLimit",
                ),
            ),
        ),
    ),
)

_ABUSE = replace(
    USUAL,
    name="abusive-session",
    summary="One session keeps a hundred requests in flight.",
    shows="Slots exhausted, and nearly every request that runs is of one session.",
    incidents=(
        Incident(
            name="script",
            start=START,
            end=END,
            traffic=(
                Workers(
                    name="loop",
                    client="chat-app",
                    profile=replace(CODER, turns=Spread(median=1)),
                    at_once=80,
                    one_session=True,
                    since=START,
                    until=END,
                ),
            ),
            expected=Expected(
                causes=frozenset({Cause.QUEUE_SLOTS}),
                limit=BindingLimit.SLOTS,
                alerts=("VLLMSequenceSlotsExhausted", "VLLMSequenceSlotsNearLimit"),
                allowed=TTFT,
            ),
        ),
    ),
)

_PREFIXES_LOST = replace(
    USUAL,
    name="prefix-cache-lost",
    summary="A rollout turns prefix caching off; every turn computes its whole history again.",
    shows="The prefix cache's hit rate falls to nothing, prompt tokens computed rise, tokens come slowly.",
    limits=replace(ROOMY, num_gpu_blocks=80_000),
    workload=(
        *PEOPLE,
        Sessions(
            name="repository",
            client="editor",
            profile=replace(
                CODER,
                context=Spread(median=15_000, sigma=0.2, most=24_000),
                turns=Spread(median=8, sigma=0.3),
            ),
            rate=Rate(per_s=0.13),
            manners=CALM,
        ),
    ),
    incidents=(
        Incident(
            name="rollout",
            start=START,
            end=END,
            deeds=(Deed(START, lambda it: it.swap(prefix_caching=False)), Deed(END, lambda it: it.swap())),
            expected=Expected(
                causes=frozenset({Cause.DECODE_SLOW, Cause.PREFILL_LONG, Cause.QUEUE_BUDGET}),
                alerts=("VLLMPrefixCacheHitRateDropped",),
                allowed=(*TTFT, "VLLMInterTokenLatencyHigh", "VLLMThroughputCollapse"),
            ),
        ),
    ),
)

_REJECTIONS = replace(
    _SLOTS_EXHAUSTED,
    name="rejections",
    summary="A batch job takes every slot of a server whose queue is bounded.",
    shows="A short queue, and 503 for all that find it full.",
    limits=replace(NARROW, max_num_queued_reqs=80),
    incidents=(
        replace(
            _SLOTS_EXHAUSTED.incidents[0],
            traffic=(replace(_NIGHTLY_JOB, manners=Manners(backoff_s=10.0)),),
            expected=Expected(
                causes=frozenset({Cause.REJECTED}),
                limit=BindingLimit.SLOTS,
                alerts=(
                    "VLLMAdmissionRejections",
                    "VLLMSequenceSlotsExhausted",
                    "VLLMSequenceSlotsNearLimit",
                ),
                allowed=(*TTFT, *ERRORS),
            ),
        ),
    ),
)

OVERLOADS = (
    _SLOTS_EXHAUSTED,
    _KV_THRASHING,
    _LONG_PROMPTS,
    _RUNAWAY,
    _RETRY_STORM,
    _ABUSE,
    _PREFIXES_LOST,
    _REJECTIONS,
)
