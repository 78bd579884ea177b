"""Waiting for what other programs do: by asking until an answer comes, never by sleeping a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(probe: Callable[[], T], *, within: float, what: str) -> T:
    """The first true answer of ``probe``; fails with its last one when ``within`` seconds are over."""
    return _wait(probe, bool, within=within, what=what)


def becomes(expected: T, probe: Callable[[], T], *, within: float) -> None:
    """Wait until ``probe`` answers ``expected``; fail with its last answer after ``within`` seconds."""
    _wait(probe, lambda answer: answer == expected, within=within, what=repr(expected))


def _wait(probe: Callable[[], T], accept: Callable[[T], bool], *, within: float, what: str) -> T:
    deadline = time.monotonic() + within
    while True:
        answer = probe()
        if accept(answer):
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within:g} s for {what}; the last answer was {answer!r}")
        time.sleep(0.1)
