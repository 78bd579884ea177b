"""Windows that hold too few scrapes."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_observe.alerts.lint.expression import Call, Selector, walk
from vllm_observe.alerts.lint.problem import Finding, Level
from vllm_observe.alerts.lint.subject import Check, Subject

__all__ = ["CHECK"]

#: Functions that need two samples at least.
_OF_TWO = frozenset(
    ("rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear", "changes", "resets")
)
#: Scrapes in a window so that a missed one does no harm.
_SAFE = 4
_LEAST = 2


def _run(subject: Subject) -> Iterator[Finding]:
    told = set()
    interval = subject.context.scrape_interval
    for part, _ in walk(subject.expression):
        if not isinstance(part, Call) or part.function not in _OF_TWO:
            continue
        for selector in part.arguments:
            if (
                not isinstance(selector, Selector)
                or not selector.window
                or selector.window >= _SAFE * interval
            ):
                continue
            if (selector.name, selector.window) in told:
                continue
            told.add((selector.name, selector.window))
            never = selector.window < _LEAST * interval
            yield Finding(
                Level.ERROR if never else Level.WARNING,
                f"{part.function}({selector.name}[{selector.window:g}s]) "
                + ("never holds two scrapes" if never else "is gone when a scrape fails")
                + f" {interval:g} s apart: take {_SAFE * interval:g}s or more",
            )


CHECK = Check("short-window", "A window is shorter than four scrape intervals.", _run)
