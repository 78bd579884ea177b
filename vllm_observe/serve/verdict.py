"""The state of a server in one sentence, and whether somebody has to mend something."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum
from typing import NamedTuple

from vllm_observe.errors import ScrapeFailure
from vllm_observe.model import BindingLimit
from vllm_observe.serve.state import EngineStatus, State
from vllm_observe.thresholds import JUST_RESTARTED_S, KV_NEAR_FULL, SLOTS_NEAR_LIMIT, STALL_AFTER_S

__all__ = ["Level", "Verdict", "verdict"]


class Level(str, Enum):
    """How much a verdict matters."""

    WELL = "well"
    BUSY = "busy"  # at a limit or near it, or only just back: users wait or soon will, or nobody hears of it
    PROBLEM = "problem"  # it does not serve, or its state is not known


class Verdict(NamedTuple):
    """What a state comes to, in words."""

    level: Level
    text: str


def verdict(state: State) -> Verdict:
    """Judge a state. What is worse or less certain comes first: the rest would only distract from it."""
    judgements = (judge(state) for judge in _JUDGES)
    return next((found for found in judgements if found is not None), _serving(state))


# --- It does not serve, or nobody knows -----------------------------------------------------------

_UNREACHED = {
    ScrapeFailure.CONNECTION: "down",
    ScrapeFailure.TIMEOUT: "hung or overloaded",
    ScrapeFailure.AUTH: "not let in",
    ScrapeFailure.HTTP_SERVER: "metrics fail",
    ScrapeFailure.NO_VLLM_METRICS: "no vLLM metrics",
}


def _unreached(state: State) -> Verdict | None:
    scrape = state.scrape
    if scrape.success:
        return None
    word = _UNREACHED.get(scrape.reason, "no state") if scrape.reason else "no state"
    text = f"{word}: {scrape.message or 'for no known reason'}"
    if scrape.age_s is not None:
        age = f"{scrape.age_s:.0f} s"
        text = (
            f"stale, all figures are {age} old; {text}" if state.engines else f"{text} (last seen {age} ago)"
        )
    return Verdict(Level.PROBLEM, text)


def _stalled(state: State) -> Verdict | None:
    stalled = [engine for engine in state.engines if engine.stalled]
    if not stalled:
        return None
    since = f" for {state.stall_after_s:.0f} s or more" if state.stall_after_s else ""
    work = f"{_sum('running', stalled)} running, {_sum('waiting', stalled)} waiting"
    return Verdict(Level.PROBLEM, f"stalled: {work} and no token{since}{_which(stalled, state)}")


def _answers_without_tokens(state: State) -> Verdict | None:
    if not state.answers_without_tokens:
        return None
    return Verdict(Level.PROBLEM, "dead engine: requests are answered 2xx and no token is made; restart vLLM")


def _says_nothing(state: State) -> Verdict | None:
    if any(engine.running is not None or engine.waiting is not None for engine in state.engines):
        return None
    return Verdict(
        Level.PROBLEM,
        "state unknown: vLLM tells neither running nor waiting requests; is it run with --disable-log-stats?",
    )


# --- It serves ------------------------------------------------------------------------------------


def _asleep(state: State) -> Verdict | None:
    asleep = [engine for engine in state.engines if engine.awake is False]
    if not asleep:
        return None
    return Verdict(Level.BUSY, f"asleep: it serves nobody until it is woken up{_which(asleep, state)}")


_HELD_BACK = {
    BindingLimit.SLOTS: "saturated",
    BindingLimit.KV: "short of KV cache",
    BindingLimit.TOKEN_BUDGET: "steps are full (max_num_batched_tokens)",
    BindingLimit.DEFERRED: "requests wait for a KV transfer, a LoRA slot or a grammar",
}


def _held_back(state: State) -> Verdict | None:
    for limit, words in _HELD_BACK.items():
        held = [engine for engine in state.engines if engine.binding_limit is limit]
        if held:
            kv = f"{_fullest(held)} used, " if limit is BindingLimit.KV else ""
            return Verdict(Level.BUSY, f"{words}: {kv}{_load(held)}{_which(held, state)}")
    return None


def _waiting(state: State) -> Verdict | None:
    # A request that has only just come waits for the next step on any server, whatever the look before saw.
    waiting = [engine for engine in state.engines if engine.waiting and engine.queued is not False]
    if not waiting:
        return None
    return Verdict(Level.BUSY, f"waiting: {_load(waiting)}, {_why(waiting)}{_which(waiting, state)}")


def _why(waiting: Collection[EngineStatus]) -> str:
    """Say what is known of a queue that no limit explains: one look sees what has just left, too."""
    if any(engine.max_num_seqs is None for engine in waiting):
        return "max_num_seqs unknown"
    if all(map(_slots_near_limit, waiting)):
        return "nearly all slots are taken"
    if all(map(_kv_near_full, waiting)):
        return f"{_fullest(waiting)} of the KV cache used"
    return "why is not known"


def _slots_near_limit(engine: EngineStatus) -> bool:
    return (engine.utilization or 0) >= SLOTS_NEAR_LIMIT


def _kv_near_full(engine: EngineStatus) -> bool:
    return (engine.kv_usage or 0) >= KV_NEAR_FULL


def _near_a_limit(state: State) -> Verdict | None:
    slots = list(filter(_slots_near_limit, state.engines))
    if slots:
        return Verdict(Level.BUSY, f"near its limit: {_load(slots)}{_which(slots, state)}")
    kv = list(filter(_kv_near_full, state.engines))
    if kv:
        return Verdict(
            Level.BUSY, f"near its limit: {_fullest(kv)} of the KV cache used, {_load(kv)}{_which(kv, state)}"
        )
    return None


def _log_silent(state: State) -> Verdict | None:
    # While nothing ends there is nothing to tell, and the silence may be of an hour ago.
    silent = None if state.requests is None else state.requests.silent_s
    ending = 0.0 if state.throughput is None else state.throughput.requests_per_s or 0.0
    if silent is None or ending <= 0 or silent < (state.stall_after_s or STALL_AFTER_S):
        return None
    told = f"nothing for {silent:.0f} s, though vLLM ends requests"
    return Verdict(Level.BUSY, f"the request log is silent: {told}: {_doing(state)}")


def _only_just_back(state: State) -> Verdict | None:
    # What the one before it was doing has failed, and who asks will be back: an idle server is another thing.
    age = state.restart_age_s
    if age is None or age >= JUST_RESTARTED_S:
        return None
    return Verdict(Level.BUSY, f"restarted {age:.0f} s ago: {_doing(state)}")


def _serving(state: State) -> Verdict:
    return Verdict(Level.WELL, _doing(state))


def _doing(state: State) -> str:
    idle = all(engine.running == 0 and engine.waiting == 0 for engine in state.engines)
    return "idle" if idle else f"serving: {_load(state.engines)}"


_JUDGES: tuple[Callable[[State], Verdict | None], ...] = (
    _unreached,
    _stalled,
    _answers_without_tokens,
    _says_nothing,
    _asleep,
    _held_back,
    _waiting,
    _near_a_limit,
    _log_silent,
    _only_just_back,
)


# --- Words ----------------------------------------------------------------------------------------


def _load(engines: Collection[EngineStatus]) -> str:
    slots = [engine.max_num_seqs for engine in engines]
    known = [slot for slot in slots if slot is not None]
    running = _sum("running", engines)
    running += f" of {sum(known)} slots" if len(known) == len(slots) else " running"
    return f"{running}, {_sum('waiting', engines)} waiting"


def _sum(field: str, engines: Iterable[EngineStatus]) -> str:
    values = [getattr(engine, field) for engine in engines]
    return "?" if None in values else f"{sum(values):.6g}"


def _fullest(engines: Iterable[EngineStatus]) -> str:
    usages = [engine.kv_usage for engine in engines if engine.kv_usage is not None]
    return f"{max(usages) * 100:.1f} %" if usages else "? %"


def _which(some: Collection[EngineStatus], state: State) -> str:
    """Name the engines that are meant, where there are others."""
    if len(some) == len(state.engines):
        return "" if len(some) == 1 else f" (all {len(some)} engines)"
    names = ", ".join(engine.engine or "?" for engine in list(some)[:_NAMED])
    more = ", …" if len(some) > _NAMED else ""
    return f" (engine{'s' if len(some) > 1 else ''} {names}{more} of {len(state.engines)})"


#: Engines that a sentence names; the table names them all.
_NAMED = 4
