"""The state of one vLLM server, as ``status`` and ``/api/v1/state`` show it.

``None`` means "not known", never zero. What is known of the engines is theirs at the last good
scrape, ``age_s`` seconds ago; once that is too long ago to speak for now, it is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from vllm_observe.clock import Clock
from vllm_observe.engine.address import Address
from vllm_observe.engine.binding import binding_limit, utilization
from vllm_observe.engine.sampling import work_present
from vllm_observe.engine.tracker import EngineView
from vllm_observe.engine.upgrade import LoraState
from vllm_observe.engine.watch import EngineWatch, Look
from vllm_observe.errors import ScrapeFailure
from vllm_observe.model import BindingLimit, Limits, LimitsSource, ServiceClass
from vllm_observe.serve.capacity import kv_capacities
from vllm_observe.serve.windows import (
    Amount,
    Latency,
    Throughput,
    WindowedRatio,
    latencies,
    prefix_cache_hit_ratio,
    same_process,
    throughput,
)
from vllm_observe.thresholds import Targets

__all__ = [
    "EXPECTED",
    "EngineStatus",
    "LatencyTargets",
    "LoraAdapters",
    "RequestsState",
    "ScrapeStatus",
    "State",
    "engine_state",
]

#: The signals, by their keys, that every release of vLLM exposes unasked under one name or another.
#: Where one is absent, something that the state is there to show cannot be seen.
EXPECTED = (
    "running",
    "waiting",
    "kv_usage",
    "preemptions",
    "prompt_tokens",
    "generation_tokens",
    "finished",
    "step_tokens",
    "cache_config",
    "ttft",
    "itl",
    "e2e",
    "queue_time",
    "prefill_time",
    "decode_time",
)


#: A number of things that JSON can hold exactly.
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class ScrapeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the last scrape went. ``age_s`` is that of the last good one, ``duration_s`` what it took."""

    success: bool
    age_s: Amount | None = None
    reason: ScrapeFailure | None = None
    message: str | None = None
    duration_s: Amount | None = None
    dropped: dict[str, Count] = {}  # samples and lines of its page that count for nothing, by reason


class LatencyTargets(msgspec.Struct, frozen=True, kw_only=True):
    """What the service class promises; ``None`` promises nothing."""

    ttft_s: Amount | None = None
    tpot_s: Amount | None = None
    e2e_s: Amount | None = None


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One engine, at the last good scrape.

    ``stalled`` and ``queued`` (whether some waited at the scrape before, too) are ``None`` where one look
    cannot tell.
    """

    model_name: str
    engine: str
    age_s: Amount
    running: Amount | None = None
    waiting: Amount | None = None
    waiting_capacity: Amount | None = None
    waiting_deferred: Amount | None = None
    queued: bool | None = None
    max_num_seqs: Count | None = None
    utilization: Amount | None = None
    kv_usage: Amount | None = None
    kv_capacity_tokens: Count | None = None
    binding_limit: BindingLimit | None = None
    stalled: bool | None = None
    awake: bool | None = None


class LoraAdapters(msgspec.Struct, frozen=True, kw_only=True):
    """The LoRA adapters: how many may be loaded at once, and which have requests."""

    max_adapters: Count | None = None
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


class RequestsState(msgspec.Struct, frozen=True, kw_only=True):
    """The requests' side of a sidecar, since the sidecar's start.

    ``joined`` counts requests by outcome, ``slow`` slow and failed ones by cause. ``lag_s`` is
    for how long a log has held lines that were not read yet, ``silent_s`` for how long vLLM has ended
    requests and no line came; both are ``None`` where no log is followed.
    """

    lines: Count = 0
    unparsed: Count = 0
    lag_s: Amount | None = None
    silent_s: Amount | None = None
    pending: Count = 0
    sessions: Count = 0
    joined: dict[str, Count] = {}
    slow: dict[str, Count] = {}


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One server as seen at ``generated_at``, in seconds since the Unix epoch.

    ``url`` holds no user and no password. ``found`` names, for each signal's key, the exposed family
    that serves it; ``missing`` the expected signals that are not exposed. ``restart_age_s`` is for how
    long a vLLM has been seen that took the place of another. ``requests`` is ``None`` where no sidecar
    joins request logs.
    """

    generated_at: Amount
    url: str
    scrape: ScrapeStatus
    service_class: ServiceClass = ServiceClass.INTERACTIVE
    targets: LatencyTargets = LatencyTargets()
    vllm_version: str | None = None
    limits_source: LimitsSource = LimitsSource.UNKNOWN
    stall_after_s: Amount | None = None
    restart_age_s: Amount | None = None
    engines: tuple[EngineStatus, ...] = ()
    answers_without_tokens: bool | None = None
    latency: tuple[Latency, ...] = ()
    throughput: Throughput | None = None
    prefix_cache_hit_ratio: WindowedRatio | None = None
    lora: LoraAdapters | None = None
    found: dict[str, str] = {}
    missing: tuple[str, ...] = ()
    requests: RequestsState | None = None


def engine_state(
    watch: EngineWatch,
    earlier: Look | None,
    *,
    limits: Callable[[str], Limits],
    service_class: ServiceClass,
    targets: Targets,
    url: str,
    clock: Clock,
) -> State:
    """Return the state of a server and its engines; ``requests`` is left to who knows of them.

    Args:
        watch: looks at the server.
        earlier: an older look, with which windows begin; without it there are no rates, and the
            latencies run since vLLM's start. :class:`~vllm_observe.serve.windows.LookBack` keeps it.
        limits: gives an engine's limits by its rank.
        service_class: which targets apply.
        targets: what they are.
        url: the server's address.
        clock: tells what time it is now.
    """
    address = Address.parse(url)
    views = watch.tracker.engines()
    look = watch.current()
    told = limits(views[0].sample.key.engine if views else "")
    state = State(
        generated_at=clock.wall(),
        url=address.show(address.prefix),
        scrape=_scrape(watch, look),
        service_class=service_class,
        targets=LatencyTargets(ttft_s=targets.ttft, tpot_s=targets.tpot, e2e_s=targets.e2e),
        vllm_version=told.vllm_version,
        limits_source=told.source,
        stall_after_s=watch.tracker.stall_after,
        restart_age_s=watch.tracker.restart_age(),
    )
    age = watch.tracker.age()
    if look is None or age is None:
        return state
    capacities = kv_capacities(look.families)
    earlier = same_process(earlier, look)
    return msgspec.structs.replace(
        state,
        engines=tuple(
            _engine(view, limits(view.sample.key.engine), capacities.get(view.sample.key.engine), age)
            for view in sorted(views, key=_in_order)
        ),
        answers_without_tokens=watch.tracker.answers_without_tokens(),
        latency=latencies(look, earlier),
        throughput=throughput(look, earlier),
        prefix_cache_hit_ratio=prefix_cache_hit_ratio(look, earlier),
        lora=_lora(look.lora),
        found=dict(look.found),
        missing=tuple(key for key in EXPECTED if key not in look.found),
    )


def _in_order(view: EngineView) -> tuple[str, int, str]:
    """Sort by model, and ranks as the numbers that they are: 2 before 10."""
    model, engine = view.sample.key
    return model, len(engine), engine


def _scrape(watch: EngineWatch, look: Look | None) -> ScrapeStatus:
    """Say how the scrapes go: one that is overdue is no success either."""
    age, failure = watch.tracker.age(), watch.failure
    if failure is not None:
        return ScrapeStatus(success=False, age_s=age, reason=failure.error.reason, message=str(failure.error))
    if look is None:
        message = "vLLM has not been scraped yet" if age is None else f"no scrape for {age:.0f} s"
        return ScrapeStatus(success=False, age_s=age, message=message)
    dropped = {reason.value: number for reason, number in look.dropped.items() if number}
    return ScrapeStatus(success=True, age_s=age, duration_s=look.seconds, dropped=dropped)


def _engine(view: EngineView, limits: Limits, capacity: int | None, age: float) -> EngineStatus:
    sample = view.sample
    return EngineStatus(
        model_name=sample.key.model_name,
        engine=sample.key.engine,
        age_s=age,
        running=sample.running,
        waiting=sample.waiting,
        waiting_capacity=sample.waiting_capacity,
        waiting_deferred=sample.waiting_deferred,
        queued=_queued(view),
        max_num_seqs=limits.slots,
        utilization=utilization(sample, limits),
        kv_usage=sample.kv_usage,
        kv_capacity_tokens=capacity,
        binding_limit=binding_limit(view.previous, sample, limits),
        stalled=_stalled(view),
        awake=sample.awake,
    )


def _queued(view: EngineView) -> bool | None:
    """Say whether requests wait for longer than from one look to the next."""
    if not view.sample.waiting:
        return None if view.sample.waiting is None else False
    return None if view.previous is None or view.previous.waiting is None else view.previous.waiting > 0


def _stalled(view: EngineView) -> bool | None:
    """Say whether the engine stands still: with work before it, a single look does not tell."""
    if view.previous is None and not view.stalled and work_present(view.sample):
        return None
    return view.stalled


def _lora(lora: LoraState | None) -> LoraAdapters | None:
    if lora is None:
        return None
    return LoraAdapters(max_adapters=lora.max_adapters, running=lora.running, waiting=lora.waiting)
