"""One look at a source, printed: as a table or as a JSON document."""

from __future__ import annotations

import io
import json
import os
import sys

import msgspec
from rich.console import Console, RenderableType

from vllm_observe.cli.output import write
from vllm_observe.cli.sources import Source
from vllm_observe.cli.table import state_table
from vllm_observe.errors import VllmObserveError
from vllm_observe.serve.state import State
from vllm_observe.serve.verdict import Level, verdict

__all__ = ["as_document", "as_text", "exit_code", "look_once"]


def look_once(source: Source, *, as_json: bool) -> int:
    """Look once, print what there is to see, and return the exit code.

    Raises:
        VllmObserveError: there is a problem, and no table that tells it.
    """
    state = source.look()
    judged = verdict(state)
    if as_json:
        write(as_document(state, indent=2))
    elif state.engines or state.requests is not None:
        write(as_text(state_table(state, seen_by=source.name)))
        return exit_code(state)
    if judged.level is Level.PROBLEM:
        raise VllmObserveError(judged.text)
    return exit_code(state)


def exit_code(state: State) -> int:
    """Return 1 where somebody has something to mend, else 0."""
    return int(verdict(state).level is Level.PROBLEM)


def as_document(content: object, *, indent: int | None = None) -> str:
    """Return a JSON document with its line's end: ASCII, so that nothing in it moves a terminal's cursor."""
    return json.dumps(msgspec.to_builtins(content), indent=indent, allow_nan=False) + "\n"


def as_text(content: RenderableType, *, piped: int | None = None) -> str:
    """Return content as lines: as wide as the terminal, or 80 columns; coloured on a terminal only.

    Args:
        content: what to show.
        piped: the columns instead of 80 where no terminal is written to: a line that is folded is none
            for ``grep``. ``COLUMNS`` in the environment goes before it.
    """
    lines = io.StringIO()
    on_terminal = sys.stdout.isatty() or None
    width = None if on_terminal or "COLUMNS" in os.environ else piped
    console = Console(
        file=lines, width=width, force_terminal=on_terminal, highlight=False, markup=False, emoji=False
    )
    console.print(content)
    return "".join(line.rstrip() + "\n" for line in lines.getvalue().splitlines())
