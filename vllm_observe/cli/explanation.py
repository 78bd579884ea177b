"""One request explained: the cause with its evidence, and where the time went, as a waterfall.

What no record tells is left out: a line of blanks says nothing, and hides the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from vllm_observe.cli.request_tables import moment
from vllm_observe.cli.words import UNKNOWN, amount, duration, percent, printable
from vllm_observe.model import EdgeRecord, EngineRecord, Outcome, Parts
from vllm_observe.serve.api.answers import Attempt, Attempts, EngineAround

__all__ = ["explanation"]

#: Columns of the longest bar, at least and at most.
_NARROW, _WIDE = 10, 40
_STYLES = {"outside": "magenta", "queue": "yellow", "prefill": "cyan", "decode": "green"}
_SEEN = {
    Parts.BOTH: "seen by the request log and by the engine",
    Parts.EDGE: "seen by the request log alone: no word of the engine's",
    Parts.ENGINE: "seen by the engine alone: not in the request log",
}


def explanation(found: Attempts) -> RenderableType:
    """Return what a terminal shows of a request, each of its attempts in turn."""
    attempts = found.attempts
    is_only = len(attempts) == 1 and attempts[0].attempt == 1
    return Group(
        Text(f"request {printable(found.request_id, width=200)}", style="bold"),
        *(part for attempt in attempts for part in _attempt(attempt, is_only=is_only)),
    )


def _attempt(attempt: Attempt, *, is_only: bool) -> Iterator[RenderableType]:
    if not is_only:
        yield Text()
        yield Text(f"attempt {attempt.attempt}: {_ending(attempt)}", style="bold")
    yield Text(_whose(attempt), style="dim")
    yield _verdict(attempt)
    yield Text()
    yield _waterfall(attempt)
    yield Text()
    yield _facts(attempt)


def _whose(attempt: Attempt) -> str:
    named = (("session", attempt.session_id), ("profile", attempt.profile), ("client", attempt.client))
    who = [f"{what} {printable(name)}" for what, name in named if name is not None]
    return ", ".join(who) or "no session, profile or client was told"


def _verdict(attempt: Attempt) -> Text:
    is_ok = attempt.outcome is Outcome.OK
    if attempt.cause is not None:
        said = f"{attempt.cause.value}: {printable(attempt.evidence or UNKNOWN, width=500)}"
        return Text(said, style="bold yellow" if is_ok else "bold red")
    if not is_ok:
        return Text(f"{attempt.outcome.value}: no cause is known", style="bold red")
    if attempt.duration_s is None:
        return Text("it did not fail; how long it took is not known", style="bold")
    return Text("neither slow nor failed", style="bold green")


# --- Where the time went --------------------------------------------------------------------------


class _Bar(NamedTuple):
    """A bar as wide as there is room, from one share of the whole to another."""

    begins: float
    ends: float
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(_WIDE, options.max_width)
        first, last = round(width * self.begins), round(width * self.ends)
        bar = "█" * (last - first) or ("▏" if self.ends > self.begins else "")
        yield Text(" " * min(first, width - 1) + bar, style=self.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(_NARROW, options.max_width), min(_WIDE, options.max_width))


def _waterfall(attempt: Attempt) -> RenderableType:
    """Bars one behind the other, as the phases came, each as long as its share of the duration."""
    phases = {name: getattr(attempt.phases, name) for name in _STYLES}
    known = {name: seconds for name, seconds in phases.items() if seconds is not None}
    if not known:
        took = "" if attempt.duration_s is None else f" {duration(attempt.duration_s)}"
        return Text(f"where its{took or ' time'} went is not known: no record tells its phases")
    whole = max(attempt.duration_s or 0.0, sum(known.values()))
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column(justify="right", no_wrap=True)
    lines.add_column(justify="right", no_wrap=True)
    lines.add_column()
    begins = 0.0
    for name, seconds in phases.items():
        if seconds is None or not whole:
            lines.add_row(name, duration(seconds))
            continue
        bar = _Bar(begins / whole, (begins + seconds) / whole, _STYLES[name])
        lines.add_row(name, duration(seconds), percent(seconds / whole), bar)
        begins += seconds
    lines.add_row("whole", duration(attempt.duration_s), style="bold")
    return lines


# --- What else is known ---------------------------------------------------------------------------


def _facts(attempt: Attempt) -> RenderableType:
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column(overflow="fold")
    for name, text in _told(attempt):
        lines.add_row(name, Text(text))
    return lines


def _told(attempt: Attempt) -> Iterator[tuple[str, str]]:
    if attempt.started_at is not None:
        yield "began", moment(attempt.started_at, zone=True)
    yield "ended", f"{moment(attempt.ended_at, zone=True)}, {_ending(attempt)}"
    if attempt.ttft_s is not None:
        yield "first token", f"after {duration(attempt.ttft_s)}"
    yield from _listed("tokens", _tokens(attempt))
    served = (("model", attempt.model), ("engine", attempt.engine))
    yield from _listed(
        "served by", [f"{what} {printable(name)}" for what, name in served if name is not None]
    )
    if attempt.at_arrival is not None:
        yield "at arrival", _around(attempt.at_arrival, before=attempt.started_at)
    if attempt.at_end is not None:
        yield "at its end", _around(attempt.at_end, before=attempt.ended_at)
    yield "records", _SEEN[attempt.parts]
    for edge in attempt.edges:
        yield "", _edge(edge)
    engine_told_end = not all(map(_is_arrival, attempt.engines))
    for part in attempt.engines:
        if _is_arrival(part):
            unheard = "" if engine_told_end else "; of its end the engine told nothing"
            yield "", f"{_engine(part)}: arrived at {moment(part.ts)}{unheard}"
        else:
            yield "", f"{_engine(part)}: {_work(part)}"


def _listed(name: str, facts: list[str]) -> Iterator[tuple[str, str]]:
    if facts:
        yield name, ", ".join(facts)


def _tokens(attempt: Attempt) -> list[str]:
    tokens = attempt.tokens
    named = (("prompt", tokens.prompt), ("cached of it", tokens.cached), ("output", tokens.completion))
    return [f"{what} {amount(count)}" for what, count in named if count is not None]


def _ending(attempt: Attempt) -> str:
    status = "" if attempt.status is None else f", HTTP {attempt.status}"
    reason = "" if attempt.finish_reason is None else f", finish reason {printable(attempt.finish_reason)}"
    return f"{attempt.outcome.value}{status}{reason}"


def _around(around: EngineAround, *, before: float | None) -> str:
    seen = moment(around.at) if before is None else f"{duration(max(0.0, before - around.at))} before"
    known = (
        "" if around.running is None else f"{amount(around.running)} running",
        "" if around.waiting is None else f"{amount(around.waiting)} waiting",
        "" if around.kv_usage is None else f"KV cache {percent(around.kv_usage)}",
    )
    return f"{', '.join(filter(None, known)) or 'nothing known'} (seen {seen})"


def _edge(edge: EdgeRecord) -> str:
    source = "request log" if edge.source is None else printable(edge.source)
    error = "" if edge.error is None else f", {printable(edge.error)}"
    took = "" if edge.duration_s is None else f", took {duration(edge.duration_s)}"
    skew = edge.skew_s
    clock = f", by a clock {duration(abs(skew))} {'ahead' if skew > 0 else 'behind'}" if skew else ""
    return f"{source}: {edge.outcome.value}{error}{took}{clock}"


def _engine(part: EngineRecord) -> str:
    name = "engine" if part.engine is None else f"engine {printable(part.engine)}"
    return f"{name}, {printable(part.request_id)}"


def _is_arrival(part: EngineRecord) -> bool:
    return part.outcome is None and not part.is_timed


def _work(part: EngineRecord) -> str:
    told = (
        f"ended at {moment(part.ts)}" if part.e2e_s is None else f"took {duration(part.e2e_s)}",
        "" if part.finish_reason is None else f"finish reason {printable(part.finish_reason)}",
        f"preempted {amount(part.preemptions)} times" if part.preemptions else "",
    )
    return ", ".join(filter(None, told))
