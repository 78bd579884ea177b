"""What makes an engine give less than it could: imbalance, a lost cache, bad drafts, too few LoRA slots."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import ENGINE, MODEL, SERVER, Scope
from vllm_observe.alerts.rule import Alert, Board, Group, Severity
from vllm_observe.alerts.views import view_for

__all__ = ["efficiency"]

_NOW = "[15m]"
_USUAL = "[6h] offset 30m"
#: The mean of what is above 0, or of a condition that holds, more often than not.
_MOSTLY = 0.5


def efficiency(options: RuleOptions) -> Group:
    """Return the rules about what is wasted."""
    lora = (_lora(options.scope),) if options.behind_sidecar else ()
    return Group(
        "efficiency", (_imbalance(options), _prefix_cache(options.scope), _speculative(options.scope), *lora)
    )


def _imbalance(options: RuleOptions) -> Alert:
    used = view_for(options).utilization("avg_over_time", "5m")
    waiting = options.scope("vllm:num_requests_waiting")
    return Alert(
        name="VLLMDataParallelImbalance",
        expr=f"max by ({MODEL}) ({used}) - min by ({MODEL}) ({used}) > {thresholds.IMBALANCE}\n"
        f"and on ({MODEL}) max by ({MODEL}) (avg_over_time({waiting}[5m])) > {_MOSTLY}",
        hold=600,
        severity=Severity.WARNING,
        summary="{model} on {where}: one engine has requests waiting while another idles",
        description="Between the fullest and the emptiest lie {percent} of the slots. First see whether a load "
        "balancer pins clients to ranks, or one engine is stalled or asleep.",
        board=Board.ENGINE,
        keep_firing=300,
    )


def _prefix_cache(scope: Scope) -> Alert:
    now, usual = _hit_rate(scope, _NOW), _hit_rate(scope, _USUAL)
    # A server with the cache turned off asks it nothing, though prompts come: that is a rate of 0.
    prompts = f"sum by ({ENGINE}) (rate({scope('vllm:prompt_tokens_total')}{_NOW}))"
    return Alert(
        name="VLLMPrefixCacheHitRateDropped",
        expr=f"({now} or 0 * ({prompts} > 0)) < {thresholds.PREFIX_CACHE_DROP} * ({usual} > {thresholds.PREFIX_CACHE_MATTERS})\n"
        f"and on ({ENGINE}) {_requests(scope)} >= {5 * thresholds.JUDGED_MIN_REQUESTS}",
        hold=300,
        severity=Severity.WARNING,
        summary="{engine}: the prefix cache's hit rate fell to {percent}",
        description="Prompts are computed again that the cache held before: first tokens come later. First see "
        "what changed: a rollout, a prompt template with a date at its head, routing without affinity.",
        board=Board.ENGINE,
        keep_firing=900,
    )


def _hit_rate(scope: Scope, window: str) -> str:
    hits, queries = (
        f"sum by ({ENGINE}) (rate({scope(f'vllm:prefix_cache_{what}_total')}{window}))"
        for what in ("hits", "queries")
    )
    return f"{hits} / ({queries} > 0)"


def _requests(scope: Scope) -> str:
    return f"sum by ({ENGINE}) (increase({scope('vllm:request_success_total')}{_NOW}))"


def _speculative(scope: Scope) -> Alert:
    accepted, drafted = (
        f"sum by ({ENGINE}) (rate({scope(f'vllm:spec_decode_num_{what}_tokens_total')}{_NOW}))"
        for what in ("accepted", "draft")
    )
    return Alert(
        name="VLLMSpeculativeAcceptanceLow",
        expr=f"{accepted} / ({drafted} > 0) < {thresholds.SPECULATIVE_ACCEPTANCE_LOW}\n"
        f"and on ({ENGINE}) {_requests(scope)} >= {thresholds.JUDGED_MIN_REQUESTS}",
        hold=900,
        severity=Severity.WARNING,
        summary="{engine}: only {percent} of the drafted tokens are accepted",
        description="Drafting costs more than it gives. First see whether the traffic changed (another "
        "language, code); then draft fewer tokens, or turn speculative decoding off under load.",
        board=Board.ENGINE,
        keep_firing=900,
    )


def _lora(scope: Scope) -> Alert:
    running, waiting = (
        f"max by ({SERVER}) ({scope('vllm_observe_lora_adapters', matcher)})"
        for matcher in ('state="running"', 'state="waiting"')
    )
    allowed = f"max by ({SERVER}) ({scope('vllm_observe_lora_max_adapters')})"
    # A scrape between two requests finds no adapter in use, and one in a burst finds many that wait: what
    # counts is the part of the time, not how many.
    saturated = f"({running} >= bool {allowed}) * ({waiting} > bool 0)"
    return Alert(
        name="VLLMLoRASlotsSaturated",
        expr=f"{allowed}\nand on ({SERVER}) avg_over_time(({saturated})[2m:15s]) > {_MOSTLY}",
        hold=300,
        severity=Severity.WARNING,
        summary="{where}: all {count} LoRA slots are taken and adapters wait",
        description="Requests wait for their adapter, whatever slots and KV cache are left. First see which "
        "adapters are used; then raise --max-loras, or serve the rare ones elsewhere.",
        board=Board.ENGINE,
        keep_firing=300,
    )
