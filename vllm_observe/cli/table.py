"""The state of a server as a table for a terminal: what matters most stands first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vllm_observe.cli.words import UNKNOWN, amount, duration, percent, printable
from vllm_observe.model import BindingLimit
from vllm_observe.serve.state import EngineStatus, LoraAdapters, RequestsState, State
from vllm_observe.serve.verdict import Level, verdict
from vllm_observe.serve.windows import LATENCIES, Latency, QuantileFigure
from vllm_observe.signals import BY_KEY
from vllm_observe.thresholds import KV_NEAR_FULL, SLOTS_NEAR_LIMIT

__all__ = ["COLOURS", "state_table"]

COLOURS = {Level.WELL: "bold green", Level.BUSY: "bold yellow", Level.PROBLEM: "bold red"}
_ABSENT = "absent"


def state_table(state: State, *, seen_by: str) -> RenderableType:
    """Return what a terminal shows of a state.

    Args:
        state: the state.
        seen_by: who was asked for it, in a few words.
    """
    judged = verdict(state)
    return Group(
        Text(printable(judged.text, width=500), style=COLOURS[judged.level]),
        Text(_about(state), style="dim"),
        Text(f"{printable(seen_by, width=200)}, {_time(state.generated_at)}", style="dim"),
        *_engine_tables(state),
        *_latency_tables(state),
        *_note_lines(state),
    )


def _about(state: State) -> str:
    scraped = state.scrape.duration_s
    answered = "" if scraped is None else f", scraped in {duration(scraped)}"
    return printable(f"vLLM {state.vllm_version or 'of unknown version'} at {state.url}{answered}", width=400)


def _time(at: float) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(at))
    except (ValueError, OverflowError, OSError):  # a sidecar's word, and no time that there is
        return UNKNOWN


# --- Engines --------------------------------------------------------------------------------------

_HELD_BACK_BY = {
    BindingLimit.SLOTS: "slots",
    BindingLimit.KV: "KV cache",
    BindingLimit.TOKEN_BUDGET: "token budget",
    BindingLimit.DEFERRED: "deferral",
    BindingLimit.NONE: "nothing",
}


def _engine_tables(state: State) -> Iterator[RenderableType]:
    by_reason = any(
        count is not None for e in state.engines for count in (e.waiting_capacity, e.waiting_deferred)
    )
    for model, engines in groupby(state.engines, key=lambda engine: engine.model_name):
        yield Text()
        yield _engine_table(model, list(engines), by_reason=by_reason)


def _engine_table(model: str, engines: Iterable[EngineStatus], *, by_reason: bool) -> Table:
    reasons = ("of which\ncapacity", "of which\ndeferred") if by_reason else ()
    table = _table(
        f"model {printable(model) or UNKNOWN}",
        "engine",
        *("running", "used", "waiting", *reasons, "KV cache", "held back by", "age"),
    )
    for engine in engines:
        held_back = _HELD_BACK_BY[engine.binding_limit] if engine.binding_limit else UNKNOWN
        why = (_count(engine.waiting_capacity), _count(engine.waiting_deferred)) if by_reason else ()
        table.add_row(
            printable(engine.engine, width=8) or UNKNOWN,
            _running(engine),
            _marked(percent(engine.utilization), over=(engine.utilization or 0) >= SLOTS_NEAR_LIMIT),
            _count(engine.waiting, unknown=_ABSENT),
            *why,
            _kv(engine),
            "stalled" if engine.stalled else "asleep" if engine.awake is False else held_back,
            _whole(engine.age_s) if engine.age_s >= 1 else "< 1 s",
        )
    return table


def _running(engine: EngineStatus) -> str:
    if engine.running is None:
        return _ABSENT
    slots = "?" if engine.max_num_seqs is None else amount(engine.max_num_seqs)
    return f"{amount(engine.running)}/{slots}"


def _count(value: float | None, *, unknown: str = UNKNOWN) -> str:
    return unknown if value is None else amount(value)


def _kv(engine: EngineStatus) -> Text:
    if engine.kv_usage is None:
        return Text(_ABSENT)
    return _marked(percent(engine.kv_usage), over=engine.kv_usage >= KV_NEAR_FULL)


# --- Latency --------------------------------------------------------------------------------------

#: The widest figure: a column that changes its width makes a live view restless.
_FIGURE = len("< 300 ms")
_LATENCY_NAMES = {
    "ttft": "first token (TTFT)",
    "itl": "next output (ITL)",
    "tpot": "per token (TPOT)",
    "e2e": "whole request",
    "queue_time": "queue",
    "prefill_time": "prefill",
    "decode_time": "decode",
}


def _latency_tables(state: State) -> Iterator[RenderableType]:
    targets = {"ttft": state.targets.ttft_s, "tpot": state.targets.tpot_s, "e2e": state.targets.e2e_s}
    for window, latencies in groupby(state.latency, key=lambda latency: latency.window_s):
        over = "since vLLM's start" if window is None else f"of the last {_whole(window)}"
        table = _table(f"latency {over}", "", "count", "mean", "p50", "p95", "p99", "target", width=_FIGURE)
        for latency in latencies:
            _add_latency(table, latency, targets.get(latency.signal))
        yield Text()
        yield table


def _add_latency(table: Table, latency: Latency, target: float | None) -> None:
    quantiles = (_quantile(figure, target) for figure in (latency.p50, latency.p95, latency.p99))
    table.add_row(
        _LATENCY_NAMES.get(latency.signal) or printable(latency.signal, width=18),
        amount(latency.count),
        duration(latency.mean_s),
        *quantiles,
        "" if target is None else duration(target),
    )


def _quantile(figure: QuantileFigure | None, target: float | None) -> Text:
    if figure is None:
        return Text(UNKNOWN)
    sign = {"below": "< ", "above": "> "}.get(figure.bound or "", "")
    missed = target is not None and figure.value_s > target and figure.bound != "below"
    return _marked(sign + duration(figure.value_s), over=missed)


# --- The rest, a line each ------------------------------------------------------------------------


def _note_lines(state: State) -> Iterator[RenderableType]:
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column()
    for name, text in _notes(state):
        lines.add_row(name, Text(text))
    if lines.row_count:
        yield Text()
        yield lines


def _notes(state: State) -> Iterator[tuple[str, str]]:
    """Give what else there is to say: a word, and the rest of the line."""
    if state.engines:
        yield "throughput", _throughput(state)
        yield "KV cache", _kv_capacity(state.engines)
        yield "prefix cache", _prefix_cache(state)
    if state.lora is not None and (state.lora.max_adapters or state.lora.running or state.lora.waiting):
        yield "LoRA", _lora(state.lora)
    if state.requests is not None:
        requests = state.requests
        yield "requests", f"{_counts(requests.joined)}; slow or failed: {_counts(requests.slow)}"
        yield "", f"{amount(requests.pending)} in the join, {amount(requests.sessions)} sessions active"
        yield "request log", _request_log(requests)
    if any(engine.max_num_seqs is None for engine in state.engines):
        yield "unknown", "max_num_seqs: set --max-num-seqs, or run where /proc shows vLLM"
    if absent := _absent(state):
        yield _ABSENT, _listed(absent)
    if state.scrape.dropped:
        yield "dropped", f"of vLLM's page: {_counts(state.scrape.dropped)}"


def _lora(lora: LoraAdapters) -> str:
    most = _count(lora.max_adapters)
    return f"at most {most} at once; running {_listed(lora.running)}; waiting {_listed(lora.waiting)}"


def _request_log(requests: RequestsState) -> str:
    read = f"{amount(requests.lines)} lines, {amount(requests.unparsed)} of them unparsed"
    return f"{read}; {duration(requests.lag_s)} behind" if requests.lag_s else read


def _throughput(state: State) -> str:
    done = state.throughput
    if done is None:
        return f"{UNKNOWN} (needs two looks: --watch, or a sidecar)"
    return (
        f"{amount(done.generation_tokens_per_s)} generated and {amount(done.prompt_tokens_per_s)} prompt "
        f"tokens, {amount(done.requests_per_s)} requests and {amount(done.preemptions_per_s)} preemptions "
        f"a second, over the last {_whole(done.window_s)}"
    )


def _kv_capacity(engines: Iterable[EngineStatus]) -> str:
    capacities = {engine.kv_capacity_tokens for engine in engines}
    if None in capacities:
        return f"{UNKNOWN} (its size is not exposed)"
    sizes = sorted(tokens for tokens in capacities if tokens is not None)
    return " to ".join(map(amount, dict.fromkeys((sizes[0], sizes[-1])))) + " tokens an engine"


def _prefix_cache(state: State) -> str:
    ratio = state.prefix_cache_hit_ratio
    if ratio is None:
        return _ABSENT if "prefix_queries" not in state.found else f"{UNKNOWN} (nothing looked up yet)"
    over = "since vLLM's start" if ratio.window_s is None else f"over the last {_whole(ratio.window_s)}"
    return f"{percent(ratio.value)} of prompt tokens hit, {over}"


def _absent(state: State) -> list[str]:
    """Name what a table has no figures of because vLLM does not expose it."""
    latencies = (key for key in LATENCIES if state.found and key not in state.found)
    keys = dict.fromkeys((*state.missing, *latencies))
    return [BY_KEY[key].name if key in BY_KEY else key for key in keys]


def _counts(counts: Mapping[str, int]) -> str:
    """Write counts by name, the largest first."""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return _listed([f"{amount(count)} {name}" for name, count in ordered if count])


def _listed(names: Sequence[str]) -> str:
    """Write names in a line, the first ones of many."""
    listed = ", ".join(printable(name) for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return listed + more or "none"


#: Names that a line lists before it only counts them.
_LISTED = 8


# --- Form -----------------------------------------------------------------------------------------


def _table(title: str, first: str, *others: str, width: int = 0) -> Table:
    """Return a table without lines; all but its first column hold figures, in ``width`` at least."""
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        header_style="dim",
    )
    table.add_column(first, no_wrap=True, vertical="bottom")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom", min_width=width)
    return table


def _whole(seconds: float) -> str:
    """Write a window or an age in whole seconds: the tenths of it only flicker."""
    return duration(max(1, round(seconds)))


def _marked(text: str, *, over: bool) -> Text:
    return Text(text, style="bold yellow" if over else "")
