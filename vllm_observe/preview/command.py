"""What the command line asks for, read and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vllm_observe.clock import Clock, SystemClock
from vllm_observe.durations import parse_duration
from vllm_observe.errors import ConfigError
from vllm_observe.preview.board import load
from vllm_observe.preview.drawing import FORMS, draw
from vllm_observe.preview.prometheus import Prometheus
from vllm_observe.preview.span import Span
from vllm_observe.preview.variables import Filling
from vllm_observe.records.times import epoch

__all__ = ["run"]


def run(
    *,
    board: str,
    prometheus: str,
    output: Path,
    picked: Sequence[str],
    since: str,
    until: str | None,
    width: int,
    scrape_interval: str,
    token_file: Path | None,
    clock: Clock | None = None,
) -> None:
    """Draw a board.

    Args:
        board: its name, or its file's path.
        prometheus: the address of the one to ask.
        output: where to; ``.png`` or ``.html``.
        picked: values of variables, as ``name=value``.
        since: from when on: how long before the end, or a time.
        until: till when: how long ago, or a time; ``None`` for now.
        width: in pixels.
        scrape_interval: Prometheus's, as a duration.
        token_file: holds a bearer token for Prometheus.
        clock: tells what now is, if not the system's.

    Raises:
        ConfigError: something of that is wrong.
        VllmObserveError: Prometheus does not answer, or the file cannot be written.
    """
    if output.suffix.lower() not in FORMS:
        raise ConfigError(f"--output {output}: its name must end in {' or '.join(FORMS)}")
    now = (clock or SystemClock()).wall()
    end = now if until is None else _moment("--until", until, now)
    start = _moment("--since", since, end)
    if start >= end:
        raise ConfigError(f"--since {since} lies after the end of the time that is shown")
    interval = _duration("--scrape-interval", scrape_interval)
    if interval <= 0:
        raise ConfigError("--scrape-interval must be more than 0")
    span = Span(start, end, interval)
    asked, wanted = load(board), _picked(picked)
    source = Prometheus(prometheus, token_file=token_file)
    filling = Filling(asked, wanted, prometheus=source, span=span)
    draw(asked, output, prometheus=source, filling=filling, span=span, width=width)


def _moment(flag: str, text: str, before: float) -> float:
    """Read a time of day, or how long before another time it was: an age ends in its unit."""
    try:
        return epoch(text)
    except ValueError:
        pass
    try:
        return before - parse_duration(text)
    except ValueError:
        raise ConfigError(
            f"{flag} {text!r} must be an age such as 1h, RFC 3339 with its zone, or epoch seconds"
        ) from None


def _duration(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"{flag} {text!r} {error}") from None


def _picked(given: Sequence[str]) -> Mapping[str, Sequence[str]]:
    picked: dict[str, list[str]] = {}
    for one in given:
        name, sign, value = one.partition("=")
        if not sign or not name:
            raise ConfigError(f"--variable {one!r} must be written as name=value")
        picked.setdefault(name, []).append(value)
    return picked
