"""How full an engine is: its state, its limits, its caches."""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import (
    BY_ENGINE,
    BY_RANK,
    MANY,
    ROWS,
    RUNNING,
    WAITING,
    kv_usage,
    prefix_hit_rate,
    slots_used,
)
from vllm_observe.dashboards.metrics import own, vllm
from vllm_observe.dashboards.panels import (
    Colour,
    Column,
    Query,
    Row,
    State,
    StateTimeline,
    Table,
    TimeSeries,
    Unit,
    above,
)
from vllm_observe.dashboards.queries import (
    ENGINE,
    MODEL,
    Expr,
    bottom,
    calculate,
    first_of,
    max_by,
    mean,
    min_by,
    rate,
    relabel,
    select,
    sum_by,
    top,
    worst,
)
from vllm_observe.model import BindingLimit
from vllm_observe.thresholds import (
    IMBALANCE,
    KV_FULL,
    KV_NEAR_FULL,
    QUEUE_TIME_CRITICAL_S,
    QUEUE_TIME_HIGH_S,
    SLOTS_EXHAUSTED,
    SLOTS_NEAR_LIMIT,
)

__all__ = ["CACHES", "LIMITS", "STATE"]


_LIMIT_STATES = {
    BindingLimit.SLOTS: State(1, "slots: running is at max_num_seqs", Colour.CRITICAL),
    BindingLimit.KV: State(2, "KV cache is full", Colour.MEMORY),
    BindingLimit.TOKEN_BUDGET: State(3, "token budget: steps are full", Colour.WARNING),
    BindingLimit.DEFERRED: State(4, "deferred: a transfer, an adapter or a grammar", Colour.NEUTRAL),
}


def _binding_limit() -> Expr:
    """Return the number of the limit that holds each engine back; 0 where none does."""
    metric = own("binding_limit")
    told = [
        calculate(max_by(select(metric, f'limit="{limit.value}"'), *ENGINE), "*", state.value)
        for limit, state in _LIMIT_STATES.items()
    ]
    return _added(*told)


def _sleep_level() -> Expr:
    """Return 0 for an engine that is awake, 1 where its weights are offloaded, 2 where all is discarded."""
    offloaded, discarded = (
        max_by(select(vllm("sleep_state"), f'sleep_state="{state}"'), *ENGINE)
        for state in ("weights_offloaded", "discard_all")
    )
    return _added(offloaded, calculate(discarded, "*", 2))


def _added(first: Expr, *others: Expr) -> Expr:
    for other in others:
        first = calculate(first, "+", other)
    return first


def _waiting_by_reason() -> Expr:
    """Return waiting requests by reason; what a release does not split is one reason."""
    return sum_by(
        first_of(
            max_by(select(vllm("waiting_by_reason")), *ENGINE, "reason"),
            relabel(max_by(select(WAITING), *ENGINE), "reason", "all"),
            on=ENGINE,
        ),
        "reason",
    )


STATE = Row(
    "What state is it in?",
    f"Whether the engines work, and what holds them back: the {ROWS} in most trouble, where there are more.",
    (
        StateTimeline(
            title="What holds each engine back",
            shows="The limit that keeps waiting requests from running, of each engine.",
            means="slots: raise --max-num-seqs while KV cache is left. KV cache: lower it, shorten "
            "--max-model-len, or add memory. token budget: raise --max-num-batched-tokens. deferred: look at "
            "the KV connector, the LoRA slots, or structured output.",
            first="see whether requests wait at all; no wait, no limit.",
            unit=Unit.COUNT,
            states=(State(0, "none", Colour.GOOD), *_LIMIT_STATES.values()),
            queries=(Query(worst(ROWS, _binding_limit(), *ENGINE), BY_ENGINE),),
        ),
        StateTimeline(
            title="Stalled",
            shows="Whether an engine has work and produces nothing.",
            means="A stalled engine still answers /health with 200, and its gauges stand still at their last "
            "values: do not trust them.",
            first="take a py-spy dump of the engine core if you can, then restart it.",
            unit=Unit.COUNT,
            states=(State(0, "working or idle", Colour.GOOD), State(1, "stalled", Colour.CRITICAL)),
            width=6,
            queries=(Query(worst(ROWS, max_by(select(own("engine_stalled")), *ENGINE), *ENGINE), BY_RANK),),
        ),
        StateTimeline(
            title="Sleep",
            shows="Whether an engine sleeps, and how deeply.",
            means="A sleeping engine serves nothing until it is woken; the deeper, the longer that takes.",
            first="ask whoever puts it to sleep: vLLM does not do so by itself.",
            unit=Unit.COUNT,
            states=(
                State(0, "awake", Colour.GOOD),
                State(1, "weights offloaded", Colour.NEUTRAL),
                State(2, "all discarded", Colour.QUIET),
            ),
            width=6,
            queries=(Query(worst(ROWS, _sleep_level(), *ENGINE), BY_RANK),),
        ),
    ),
)

LIMITS = Row(
    "Which limit is near?",
    "Slots, queue and balance between the data-parallel ranks.",
    (
        TimeSeries(
            title="Slots used",
            shows="Running requests over max_num_seqs, of each engine.",
            means="At the upper line no slot is left and new requests wait.",
            first="raise --max-num-seqs while the KV cache has room; else add a replica.",
            unit=Unit.RATIO,
            top_value=1,
            bands=above(SLOTS_NEAR_LIMIT, SLOTS_EXHAUSTED),
            queries=(Query(top(MANY, slots_used()), BY_ENGINE),),
        ),
        TimeSeries(
            title="Running by engine",
            shows="Requests in each engine's running batch, and the most that one takes (max_num_seqs) where that is known.",
            means="A flat line at the limit is a full engine; a flat line below it, with requests waiting, is "
            "another limit or a stall.",
            first="see what holds the engine back, above.",
            unit=Unit.COUNT,
            queries=(
                Query(top(MANY, max_by(select(RUNNING), *ENGINE)), BY_ENGINE),
                Query(max_by(select(own("max_num_seqs")), "model_name"), "limit {{model_name}}"),
            ),
        ),
        TimeSeries(
            title="Waiting by reason",
            shows="Requests that wait: for capacity, or deferred for a transfer, an adapter or a grammar. "
            "Releases before 0.20 do not tell them apart.",
            means="A rise that lasts is too little capacity; a short one is a burst.",
            first="see how long they wait, beside this.",
            unit=Unit.COUNT,
            stacked=True,
            queries=(Query(_waiting_by_reason(), "{{reason}}"),),
        ),
        TimeSeries(
            title="Mean time in the queue",
            shows="From a request's arrival in the engine to its first step, on average.",
            means="Users wait this long before anything happens. It is told of requests that were scheduled: "
            "while none is, it says nothing.",
            first="add capacity, or refuse requests earlier: a queue only pays for bursts.",
            unit=Unit.SECONDS,
            bands=above(QUEUE_TIME_HIGH_S, QUEUE_TIME_CRITICAL_S),
            queries=(Query(top(MANY, mean(vllm("queue_time"), *ENGINE)), BY_ENGINE),),
        ),
        TimeSeries(
            title="Imbalance between engines",
            shows="Slots used by the fullest engine of a server less those of its emptiest.",
            means="A rise means that some ranks are full while others have room.",
            first="see whether a load balancer pins clients to a rank, or one rank is stalled or asleep.",
            unit=Unit.RATIO,
            top_value=1,
            bands=above(IMBALANCE),
            queries=(
                Query(
                    top(MANY, calculate(max_by(slots_used(), *MODEL), "-", min_by(slots_used(), *MODEL))),
                    "{{instance}} {{model_name}}",
                ),
            ),
        ),
        TimeSeries(
            title="Refused at admission",
            shows="Requests a second that vLLM refused because a queue limit was reached.",
            means="A rise protects those that are served, and its clients must try again.",
            first="see whether the queue limit or the capacity is too small.",
            unit=Unit.REQUESTS_PER_SECOND,
            queries=(
                Query(
                    sum_by(rate(vllm("admission_rejections")), "model_name", "reason"),
                    "{{model_name}} {{reason}}",
                ),
            ),
        ),
    ),
)

CACHES = Row(
    "How full is the KV cache, and what does it save?",
    "Memory for running requests, work thrown away for want of it, and work that caches spare.",
    (
        TimeSeries(
            title="KV-cache usage",
            shows="Share of the KV-cache blocks in use, of each engine.",
            means="Near full is good use of memory unless requests wait or are preempted.",
            first="look at the preemptions beside this.",
            unit=Unit.RATIO,
            top_value=1,
            bands=above(KV_NEAR_FULL, KV_FULL),
            queries=(Query(top(MANY, kv_usage()), BY_ENGINE),),
        ),
        TimeSeries(
            title="KV-cache tokens in use",
            shows="Usage times capacity: the tokens that each engine holds, and the most that one can.",
            means="The distance to the capacity is what new requests have; their longest possible length "
            "counts, not their prompt's.",
            first="compare with --max-model-len: how many of the longest requests fit?",
            unit=Unit.COUNT,
            queries=(
                Query(
                    top(
                        MANY,
                        calculate(kv_usage(), "*", max_by(select(own("kv_cache_capacity_tokens")), *ENGINE)),
                    ),
                    BY_ENGINE,
                ),
                Query(
                    max_by(select(own("kv_cache_capacity_tokens")), "model_name"), "capacity {{model_name}}"
                ),
            ),
        ),
        TimeSeries(
            title="Preemptions",
            shows="Requests a second that were thrown out of the running batch for want of KV blocks.",
            means="A rise is work done twice: each preempted request computes its tokens again.",
            first="lower --max-num-seqs, or give the cache more memory (--gpu-memory-utilization).",
            unit=Unit.PER_SECOND,
            queries=(Query(top(MANY, sum_by(rate(vllm("preemptions")), *ENGINE)), BY_ENGINE),),
        ),
        TimeSeries(
            title="Prefix-cache hit rate",
            shows="Share of the looked-up prompt tokens that the cache held, of each engine. The oldest "
            "releases tell it since their start.",
            means="A fall makes prefill slower: prompts are computed again that were known before.",
            first="see what changed: a prompt that begins with a date, a rollout, routing without affinity.",
            unit=Unit.RATIO,
            top_value=1,
            queries=(
                Query(
                    bottom(
                        MANY,
                        first_of(
                            prefix_hit_rate(*ENGINE),
                            max_by(select(vllm("gpu_prefix_hit_rate")), *ENGINE),
                            on=ENGINE,
                        ),
                    ),
                    f"local {BY_ENGINE}",
                ),
                Query(top(MANY, prefix_hit_rate(*ENGINE, kind="external_prefix")), f"external {BY_ENGINE}"),
                Query(top(MANY, prefix_hit_rate(*ENGINE, kind="mm")), f"multi-modal {BY_ENGINE}"),
            ),
        ),
        TimeSeries(
            title="Prompt tokens by source",
            shows="Prompt tokens a second: computed here, found in the cache, or fetched from elsewhere.",
            means="A growing share of local_compute is more work for the same prompts.",
            first="compare with the hit rate beside this.",
            unit=Unit.TOKENS_PER_SECOND,
            stacked=True,
            queries=(Query(sum_by(rate(vllm("prompt_tokens_by_source")), "source"), "{{source}}"),),
        ),
        Table(
            title="KV-cache configuration",
            shows="What each engine's cache was made of when it started.",
            means="A capacity that differs between equal servers is memory that something else held.",
            first="compare --gpu-memory-utilization and what else runs on the GPU.",
            keys={
                "instance": "Instance",
                "engine": "Engine",
                "block_size": "Block",
                "num_gpu_blocks": "Blocks",
                "kv_cache_size_tokens": "Tokens",
                "enable_prefix_caching": "Prefixes",
            },
            columns=(
                Column(
                    "Seen",
                    max_by(
                        select(vllm("cache_config")),
                        "instance",
                        "engine",
                        "block_size",
                        "num_gpu_blocks",
                        "kv_cache_size_tokens",
                        "enable_prefix_caching",
                    ),
                    Unit.COUNT,
                    words=(State(1, "yes", Colour.GOOD),),
                ),
            ),
            sort="Instance",
            width=8,
            height=8,
        ),
    ),
)
