"""What many deployments do not use: speculative decoding, LoRA, KV connectors. Collapsed rows."""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import BY_ENGINE, MANY
from vllm_observe.dashboards.metrics import own, vllm
from vllm_observe.dashboards.panels import Colour, Column, Query, Row, State, Table, TimeSeries, Unit, below
from vllm_observe.dashboards.queries import (
    ENGINE,
    SERVER,
    Expr,
    bottom,
    calculate,
    first_of,
    max_by,
    mean,
    newest,
    rate,
    ratio,
    select,
    sum_by,
    top,
)
from vllm_observe.thresholds import SPECULATIVE_ACCEPTANCE_LOW

__all__ = ["FEATURES"]

_LORA_LABELS = ("running_lora_adapters", "waiting_lora_adapters", "max_lora")


def _offloaded(direction: str, once: str) -> Expr:
    """Return the bytes a second in one direction: a counter of its own since 0.24, before that a label's value."""
    return first_of(
        sum_by(rate(vllm(f"offload_{direction}_bytes")), *SERVER),
        sum_by(rate(vllm("offload_bytes"), f'transfer_type="{once}"'), *SERVER),
        on=SERVER,
    )


_SPECULATION = Row(
    "Does speculative decoding pay?",
    "Needs --speculative-config.",
    (
        TimeSeries(
            title="Drafted tokens accepted",
            shows="Share of the drafted tokens that the model accepted.",
            means="Below the line drafting costs more than it gives.",
            first="draft fewer tokens, or turn it off for this traffic; code and extraction accept most.",
            unit=Unit.RATIO,
            top_value=1,
            bands=below(SPECULATIVE_ACCEPTANCE_LOW),
            queries=(
                Query(
                    bottom(
                        MANY,
                        first_of(
                            ratio(
                                sum_by(rate(vllm("accepted_tokens")), *ENGINE),
                                sum_by(rate(vllm("draft_tokens")), *ENGINE),
                            ),
                            max_by(select(vllm("draft_acceptance_rate")), *ENGINE),
                            on=ENGINE,
                        ),
                    ),
                    BY_ENGINE,
                ),
            ),
        ),
        TimeSeries(
            title="Tokens per draft",
            shows="Tokens that one draft gave, with the one that the model adds itself.",
            means="A fall towards 1 is drafting for nothing.",
            first="see at which position drafts break, beside this.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    bottom(
                        MANY,
                        calculate(
                            ratio(
                                sum_by(rate(vllm("accepted_tokens")), *ENGINE),
                                sum_by(rate(vllm("drafts")), *ENGINE),
                            ),
                            "+",
                            1,
                        ),
                    ),
                    BY_ENGINE,
                ),
            ),
        ),
        TimeSeries(
            title="Accepted by position",
            shows="Share of the drafts of which the token at a position was accepted.",
            means="The last positions are the first to fall: they are drafted in vain.",
            first="draft as many tokens as there are positions well above the line of acceptance.",
            unit=Unit.RATIO,
            top_value=1,
            queries=(
                Query(
                    ratio(
                        sum_by(rate(vllm("accepted_tokens_by_position")), "position"),
                        sum_by(rate(vllm("drafts"))),
                        matching="on () group_left ()",
                    ),
                    "position {{position}}",
                ),
            ),
        ),
    ),
    collapsed=True,
)

_LORA = Row(
    "Which LoRA adapters are in use?",
    "Needs --enable-lora.",
    (
        TimeSeries(
            title="LoRA adapters in use",
            shows="Adapters with requests running or waiting, and the most that may be loaded at once.",
            means="Waiting adapters while running ones are at the limit: requests wait for a slot, and show as "
            "deferred.",
            first="raise --max-loras, or give the busy adapters a server of their own.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    top(MANY, max_by(select(own("lora_adapters")), *SERVER, "state")),
                    "{{instance}} {{state}}",
                ),
                Query(top(MANY, max_by(select(own("lora_max_adapters")), *SERVER)), "limit of {{instance}}"),
            ),
        ),
        TimeSeries(
            title="Requests by LoRA adapter",
            shows="1 for each adapter that has requests running or waiting.",
            means="An adapter that is there all the time deserves a slot of its own.",
            first="compare with the limit beside this.",
            unit=Unit.COUNT,
            queries=(
                Query(
                    top(MANY, max_by(select(own("lora_adapter_active")), "adapter", "state")),
                    "{{adapter}} {{state}}",
                ),
            ),
        ),
        Table(
            title="LoRA adapters now",
            shows="The adapters that each server knows; without a sidecar, what vLLM said last of them, its older "
            "series left out.",
            means="Adapters that wait have requests that wait.",
            first="compare with the limit.",
            keys={
                "instance": "Instance",
                "adapter": "Adapter",
                "state": "State",
                "running_lora_adapters": "Running",
                "waiting_lora_adapters": "Waiting",
                "max_lora": "Limit",
            },
            columns=(
                Column(
                    "Has requests",
                    max_by(select(own("lora_adapter_active")), *SERVER, "adapter", "state"),
                    Unit.COUNT,
                    words=(State(0, "no", Colour.QUIET), State(1, "yes", Colour.GOOD)),
                ),
                Column(
                    "Last change",
                    calculate(
                        newest(max_by(select(vllm("lora")), *SERVER, *_LORA_LABELS), *SERVER), "*", 1000
                    ),
                    Unit.MOMENT,
                ),
            ),
            sort="Has requests",
            width=8,
            height=8,
        ),
    ),
    collapsed=True,
)

_CONNECTORS = Row(
    "How do KV caches outside the engine do?",
    "Needs a KV connector: transfers between instances, or offloading to memory and below.",
    (
        TimeSeries(
            title="NIXL transfer time",
            shows="Mean duration of a KV transfer through NIXL.",
            means="A rise delays first tokens on the decoding side.",
            first="look at the network between the two, and at the size of transfers.",
            unit=Unit.SECONDS,
            queries=(Query(top(MANY, mean(vllm("nixl_xfer_time"), *ENGINE)), BY_ENGINE),),
        ),
        TimeSeries(
            title="NIXL failures",
            shows="Transfers and notifications that failed, and requests whose blocks nobody fetched in time.",
            means="Each is a prompt computed again, or a request that failed.",
            first="see whether the other side restarted; then the network.",
            unit=Unit.PER_SECOND,
            queries=(
                Query(
                    top(MANY, sum_by(rate(vllm("nixl_failed_transfers")), *SERVER)), "transfers {{instance}}"
                ),
                Query(
                    top(MANY, sum_by(rate(vllm("nixl_failed_notifications")), *SERVER)),
                    "notifications {{instance}}",
                ),
                Query(top(MANY, sum_by(rate(vllm("nixl_expired")), *SERVER)), "expired {{instance}}"),
            ),
        ),
        TimeSeries(
            title="Requests waiting for KV blocks",
            shows="Requests that wait for blocks from another instance, by stage. Since 0.32.",
            means="A rise is a slow or a stuck transfer; those requests show as deferred.",
            first="compare with the transfer time beside this.",
            unit=Unit.COUNT,
            queries=(
                Query(sum_by(max_by(select(vllm("kv_fetch")), *ENGINE, "stage"), "stage"), "{{stage}}"),
            ),
        ),
        TimeSeries(
            title="Offloaded bytes",
            shows="Bytes a second between the GPU and the memory tier, by direction.",
            means="Much going out and little coming back is offloading for nothing.",
            first="compare with the external hit rate.",
            unit=Unit.BYTES_PER_SECOND,
            queries=(
                Query(top(MANY, _offloaded("load", "CPU_to_GPU")), "back {{instance}}"),
                Query(top(MANY, _offloaded("store", "GPU_to_CPU")), "out {{instance}}"),
            ),
        ),
    ),
    collapsed=True,
)

FEATURES = (_SPECULATION, _LORA, _CONNECTORS)
