"""The demo's sentences: whose requests, why, which one to look at, and what fires."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable

from vllm_observe.cli.demo_picture import Picture
from vllm_observe.cli.words import UNKNOWN, amount, duration, printable
from vllm_observe.demo.run import Demo
from vllm_observe.demo.story import Story
from vllm_observe.model import Cause
from vllm_observe.serve.api.answers import RequestObject
from vllm_observe.serve.state import State
from vllm_observe.serve.verdict import Level
from vllm_observe.serve.windows import Latency, QuantileFigure

__all__ = [
    "about",
    "evidence",
    "explain_command",
    "first_token",
    "holders",
    "metrics_pages",
    "no_alerts",
    "other_pages",
    "throughput",
    "whose",
    "why",
]

#: What happened to requests with this cause; the sentence begins with how many they were.
_WHAT_HAPPENED = {
    Cause.CLIENT_DISCONNECTED: "were given up by their client",
    Cause.REJECTED: "were refused before they were served",
    Cause.CLIENT_ERROR: "asked for something wrong",
    Cause.SERVER_ERROR: "met an error of the server",
    Cause.ENGINE_ERROR: "met an error of the engine",
    Cause.QUEUE_SLOTS: "waited while every slot was taken",
    Cause.QUEUE_KV: "waited while the KV cache was full",
    Cause.QUEUE_BUDGET: "waited while the prompts of others filled every step",
    Cause.QUEUE_DEFERRED: "waited for a KV transfer, a LoRA slot or a grammar",
    Cause.PREEMPTED: "lost their KV blocks to others",
    Cause.PREFILL_LONG: "brought a long prompt that no cache held",
    Cause.DECODE_LONG: "took many output tokens at a normal rate",
    Cause.DECODE_SLOW: "took long for each output token",
    Cause.OUTSIDE_ENGINE: "were held up outside the engine",
    Cause.UNKNOWN: "were slow for a reason that is not known",
}
#: Names in a line, before the rest is only counted.
_NAMED = 3
#: The admin listener that every command asks unless it is told another.
_USUAL_ADMIN = "http://127.0.0.1:9810"


def about(demo: Demo) -> str:
    """Say what is shown: a scenario, or a vLLM of the user's own."""
    watched = demo.watched
    if isinstance(watched, Story):
        return f"{watched.scenario.name}: {watched.scenario.summary}"
    return watched.about


def metrics_pages(demo: Demo) -> str:
    """Name the pages with numbers."""
    prometheus = "" if demo.alerting is None else f", Prometheus {demo.alerting.prometheus}"
    return f"{demo.metrics}/metrics{prometheus}"


def other_pages(demo: Demo) -> str:
    """Name the other pages."""
    alertmanager = "" if demo.alerting is None else f", alerts {demo.alerting.alertmanager}"
    return f"{demo.admin}/api/v1/state{alertmanager}"


def no_alerts(demo: Demo, picture: Picture | None = None) -> str:
    """Say why no alert fires now."""
    if demo.alerting is None:
        return demo.without_alerts or UNKNOWN
    if picture is not None and picture.fired:
        return f"none fires any more; fired: {', '.join(picture.fired)}"
    times = demo.watched.pressed_by
    return f"none; the rules are {times} times as quick here" if times > 1 else "none"


def whose(picture: Picture) -> str:
    """Say whose the requests of the main cause are, and where most are of one session, of which."""
    clients = Counter(request.client or "no client" for request in picture.mainly)
    listed = _listed(
        f"{amount(count)} of {printable(client, width=20)}" for client, count in clients.most_common()
    )
    if picture.main_session is None:
        return listed
    session, count = picture.main_session
    return f"{listed}; {amount(count)} of them of session {printable(session, width=20)}"


def why(picture: Picture) -> str:
    """Say why most of the slow and failed requests are."""
    cause = picture.main_cause
    if cause is None:
        return "no request was slow, none failed"
    count, what = len(picture.mainly), _WHAT_HAPPENED[cause]
    return f"1 request {what.replace('were ', 'was ', 1)}" if count == 1 else f"{count} requests {what}"


def at_worst(picture: Picture) -> str:
    """Say how the server stood at its worst; that it stood well is no comfort to those whose requests were slow."""
    # What the last look saw may not have lasted yet: nobody looked on.
    last = picture.judged if picture.judged.level is Level.PROBLEM else None
    worst = picture.at_worst or last
    if worst is not None:
        return printable(worst.text, width=300)
    return "all was well" if picture.main_cause is None else "the engine itself was well"


def evidence(request: RequestObject) -> str:
    """Say of one request what speaks for its cause."""
    name = printable(request.request_id)
    return f"{name} took {duration(request.duration_s)}: {printable(request.evidence or UNKNOWN, width=300)}"


def explain_command(program: str, request: RequestObject, demo: Demo) -> list[str]:
    """Return the command that explains one request, in parts between which it may be broken."""
    sidecar = [] if demo.admin == _USUAL_ADMIN else [f"--sidecar {demo.admin}"]
    return [program, f"explain {shlex.quote(printable(request.request_id, width=200))}", *sidecar]


def holders(picture: Picture) -> str:
    """Say which clients have the engine's time, and first of all the session that has most of it."""
    shares = [_share(client, share) for client, share in picture.holders]
    if not shares:
        return UNKNOWN
    session = "" if picture.main_holder is None else f"{_share(*picture.main_holder, kind='session ')}; "
    return f"{session}{', '.join(shares[:_NAMED])} (last {len(picture.lately)} requests)"


def _share(name: str, share: float, *, kind: str = "") -> str:
    return f"{round(share * 100)} % {kind}{printable(name, width=20)}"


def first_token(state: State) -> str:
    """Say how long a first token takes."""
    found = next((latency for latency in state.latency if latency.signal == "ttft"), Latency(signal="ttft"))
    if found.p50 is None and found.p95 is None:
        return UNKNOWN
    over = "since vLLM's start" if found.window_s is None else f"last {found.window_s:.0f} s"
    target = "" if state.targets.ttft_s is None else f", target {duration(state.targets.ttft_s)}"
    return f"p50 {_quantile(found.p50)}, p95 {_quantile(found.p95)} ({over}{target})"


def throughput(state: State) -> str:
    """Say what the server gets done."""
    done = state.throughput
    if done is None:
        return UNKNOWN
    requests, tokens = done.requests_per_s, done.generation_tokens_per_s
    return f"{_rounded(requests, 1)} requests and {_rounded(tokens, 0)} tokens a second"


def _rounded(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else amount(round(value, digits))


def _quantile(figure: QuantileFigure | None) -> str:
    if figure is None:
        return UNKNOWN
    sign = {"below": "< ", "above": "> "}.get(figure.bound or "", "")
    return sign + duration(figure.value_s)


def _listed(names: Iterable[str]) -> str:
    parts = list(names)
    more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more
