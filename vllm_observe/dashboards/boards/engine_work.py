"""What an engine does with its time: tokens, steps, phases, and what clients get."""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import (
    BY_ENGINE,
    FINISH_REASONS,
    INTERACTIVE,
    MANY,
    PHASES,
    quantiles,
    tokens_per_second,
)
from vllm_observe.dashboards.metrics import vllm
from vllm_observe.dashboards.panels import Heatmap, Query, Row, TimeSeries, Unit, above
from vllm_observe.dashboards.queries import ENGINE, buckets, mean, rate, sum_by, top

__all__ = ["LATENCY", "WORK"]


WORK = Row(
    "What does it do with its time?",
    "Tokens, steps, and the phases of a request.",
    (
        TimeSeries(
            title="Tokens",
            shows="Prompt tokens (those that a cache held included) and generated tokens a second.",
            means="Generated tokens that fall while requests run are a slower GPU or larger prefills between.",
            first="compare with tokens per step and with the GPU below.",
            unit=Unit.TOKENS_PER_SECOND,
            queries=(
                Query(top(MANY, tokens_per_second("prompt_tokens", *ENGINE)), f"in {BY_ENGINE}"),
                Query(top(MANY, tokens_per_second("generation_tokens", *ENGINE)), f"out {BY_ENGINE}"),
            ),
        ),
        TimeSeries(
            title="Tokens per step",
            shows="Tokens that one engine step computes, on average.",
            means="Close to --max-num-batched-tokens the step is full: prefills wait for each other.",
            first="raise --max-num-batched-tokens if first tokens matter more than the pace of running ones.",
            unit=Unit.COUNT,
            queries=(Query(top(MANY, mean(vllm("step_tokens"), *ENGINE)), BY_ENGINE),),
        ),
        TimeSeries(
            title="Steps",
            shows="Engine steps a second.",
            means="None while requests run or wait is a stall. Fewer at the same tokens is larger batches.",
            first="with a stall, read vLLM's log.",
            unit=Unit.PER_SECOND,
            queries=(Query(top(MANY, sum_by(rate(vllm("step_tokens"), part="_count"), *ENGINE)), BY_ENGINE),),
        ),
        TimeSeries(
            title="Where a request's time goes",
            shows="Mean time of finished requests in the queue, in prefill and in decode, stacked. Means, since "
            "these histograms' first bucket ends at 0.3 s and quantiles below it would be invented.",
            means="The part that grows is the one to look at.",
            first="queue: capacity. prefill: long or uncached prompts. decode: batch size, or long answers.",
            unit=Unit.SECONDS,
            stacked=True,
            width=12,
            colours=PHASES,
            queries=(
                Query(mean(vllm("queue_time")), "queue"),
                Query(mean(vllm("prefill_time")), "prefill"),
                Query(mean(vllm("decode_time")), "decode"),
            ),
        ),
        TimeSeries(
            title="Finished requests by reason",
            shows="Requests a second by why the engine ended them.",
            means="A rise of length means answers cut at max_tokens; of error or abort, failures. Clients that "
            "left are in none of these.",
            first="for errors read vLLM's log at that time.",
            unit=Unit.REQUESTS_PER_SECOND,
            stacked=True,
            width=12,
            colours=FINISH_REASONS,
            queries=(Query(sum_by(rate(vllm("finished")), "finished_reason"), "{{finished_reason}}"),),
        ),
    ),
)

LATENCY = Row(
    "How fast is it?",
    "What requests wait for, as vLLM measures it.",
    (
        TimeSeries(
            title="Time to first token by model",
            shows="From a request's arrival to its first token; the line is the interactive target.",
            means="A rise is waiting, slow prefill, or a cache that hits less.",
            first="compare with the time in the queue and the prefill means above.",
            unit=Unit.SECONDS,
            bands=above(INTERACTIVE.ttft),
            queries=quantiles(vllm("ttft"), "model_name"),
        ),
        TimeSeries(
            title="Inter-token latency by model",
            shows="Between two outputs of a request.",
            means="A rise is a larger batch, prefills in between, or a slower GPU.",
            first="compare with tokens per step.",
            unit=Unit.SECONDS,
            bands=above(INTERACTIVE.tpot),
            queries=quantiles(vllm("itl"), "model_name"),
        ),
        TimeSeries(
            title="Time per output token of a request",
            shows="A request's mean time per token after its first: what a reader's pace is. Since 0.11.",
            means="Unlike inter-token latency it stays right with speculative decoding.",
            first="compare with inter-token latency: if only this rose, drafts are accepted less.",
            unit=Unit.SECONDS,
            bands=above(INTERACTIVE.tpot),
            queries=quantiles(vllm("tpot"), "model_name"),
        ),
        Heatmap(
            title="First tokens by bucket",
            shows="How many requests had their first token within each bucket.",
            means="Two clouds are two kinds of requests: cached and uncached, short and long.",
            first="tell them apart by profile on the requests board.",
            unit=Unit.SECONDS,
            queries=(Query(buckets(vllm("ttft")), "{{le}}"),),
        ),
        Heatmap(
            title="Prompt lengths by bucket",
            shows="How many finished requests had prompts of each length.",
            means="A new cloud of long prompts explains a rise of first-token times.",
            first="ask whose they are: the requests board knows profiles.",
            unit=Unit.COUNT,
            queries=(Query(buckets(vllm("request_prompt_tokens")), "{{le}}"),),
        ),
    ),
)
