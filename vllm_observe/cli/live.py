"""Looking again and again: a view that is redrawn in place, or one report after the other in a pipe."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from vllm_observe.cli.look import as_document, as_text, exit_code
from vllm_observe.cli.output import make_safe, write
from vllm_observe.cli.sources import Source
from vllm_observe.cli.table import state_table
from vllm_observe.cli.words import printable
from vllm_observe.clock import Clock
from vllm_observe.errors import ScrapeError
from vllm_observe.serve.state import State

__all__ = ["can_redraw", "keep_looking", "redrawn"]

#: What one look gave: a state, or why there is none.
Seen = State | ScrapeError
Show = Callable[[Seen], None]


def keep_looking(source: Source, *, interval: float, as_json: bool, clock: Clock) -> int:
    """Look until Ctrl-C or SIGTERM, and return the exit code of the last look.

    Args:
        source: what to look at.
        interval: seconds from the start of one look to that of the next.
        as_json: whether to print a JSON document in a line for each look.
        clock: times the looks.
    """
    never = threading.Event()
    code = 0
    # The interruption ends the loop and not the view, which stays on the screen.
    with _stopped_alike(), _view(source, interval, as_json=as_json) as show, suppress(KeyboardInterrupt):
        due = clock.monotonic()
        while not clock.wait(never, max(0.0, due - clock.monotonic())):
            due = clock.monotonic() + interval
            seen = _look(source)
            code = exit_code(seen) if isinstance(seen, State) else 1
            show(seen)
    return code


def _look(source: Source) -> Seen:
    try:
        return source.look()
    except ScrapeError as error:
        return error


@contextmanager
def _stopped_alike() -> Iterator[None]:
    """Let SIGTERM end the looking as Ctrl-C does: a killed view would leave the cursor hidden."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _view(source: Source, interval: float, *, as_json: bool) -> Iterator[Show]:
    """Give what shows a look: a line, a part of a terminal, or some lines of a pipe."""
    if as_json:
        yield lambda seen: write(as_document(seen if isinstance(seen, State) else _error(seen)))
    elif can_redraw():
        with redrawn() as draw:
            yield lambda seen: draw(_frame(seen, source, interval))
    else:
        yield lambda seen: write(as_text(_frame(seen, source, interval)) + "\n")


def can_redraw() -> bool:
    """Say whether standard output is a terminal on which a view can be redrawn in place."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def redrawn() -> Iterator[Callable[[RenderableType], None]]:
    """Give what draws a view over the one before; the last one stays on the terminal."""
    make_safe()
    console = Console(highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        drawn_on = console.size

        def draw(view: RenderableType) -> None:
            nonlocal drawn_on
            if console.size != drawn_on:
                # The terminal has broken the lines anew: nobody knows where the view before begins.
                drawn_on = console.size
                console.clear()
            live.update(view, refresh=True)

        yield draw


def _frame(seen: Seen, source: Source, interval: float) -> RenderableType:
    if isinstance(seen, ScrapeError):
        shown: RenderableType = Text(printable(str(seen), width=500), style="bold red")
    else:
        shown = state_table(seen, seen_by=source.name)
    # The last line is a short one: a terminal writes ^C behind it, which must not begin a new line.
    return Group(shown, Text(), Text(f"a look every {interval:g} s, until Ctrl-C", style="dim"))


def _error(error: ScrapeError) -> object:
    return {"error": {"code": error.reason.value, "message": str(error)}}
