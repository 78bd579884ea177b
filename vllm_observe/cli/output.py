"""Writing to standard output, whatever it is: a terminal, a file, or a pipe whose reader has gone."""

from __future__ import annotations

import contextlib
import os
import sys

import typer

from vllm_observe.errors import VllmObserveError

__all__ = ["make_safe", "write"]


def make_safe() -> None:
    """Let standard output take every character, as a question mark where its encoding has none."""
    with contextlib.suppress(AttributeError):  # a test's replacement for it takes all of them anyway
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # not every TextIO


def write(text: str) -> None:
    """Write to standard output at once.

    Raises:
        typer.Exit: the reader of a pipe has gone. What it wanted it has, so that is no error.
        VllmObserveError: it cannot be written, such as to a full disk.
    """
    make_safe()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered would be written at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(0) from None
        raise VllmObserveError(f"standard output cannot be written: {error.strerror}") from None
