"""The words by which another program does something to a simulated server while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vllm_observe.sim.control import Act, Control

__all__ = ["UnknownCommandError", "command"]


class UnknownCommandError(ValueError):
    """A line is no command."""


def _switch(word: str) -> bool:
    return {"on": True, "off": False}[word]


def _between(least: float, most: float, read: Callable[[str], float] = float) -> Callable[[str], float]:
    """Return what reads a number, and raises a ValueError where it is not between two others."""

    def read_within(word: str) -> float:
        number = read(word)
        if not least <= number <= most:
            raise ValueError(word)
        return number

    return read_within


_factor, _seconds, _share = _between(0.001, 1e6), _between(0.0, 1e6), _between(0.0, 1.0)
_status = _between(200, 599, int)

#: Commands: the word, what reads its argument, whether that may be missing, and what it does.
_COMMANDS: Mapping[str, tuple[Callable[[str], Any] | None, bool, Callable[..., None]]] = {
    "slow_down": (_factor, False, Control.slow_down),
    "hang": (None, True, Control.hang),
    "sleep": (None, True, Control.sleep),
    "serve": (None, True, Control.serve),
    "crash": (_status, True, Control.crash),
    "restart": (_seconds, True, Control.restart),
    "swap": (None, True, Control.swap),
    "forget_prefixes": (None, True, Control.forget_prefixes),
    "fail_share": (_share, False, Control.fail_share),
    "stop_log": (_switch, False, lambda control, stopped: control.stop_log(stopped=stopped)),
    "fail_scrape": (_switch, False, lambda control, fails: control.fail_scrape(fails=fails)),
    "slow_scrape": (_seconds, False, Control.slow_scrape),
}


def command(line: str) -> Act:
    """Read a line such as ``hang``, ``slow_down 3`` or ``fail_scrape on``.

    Raises:
        UnknownCommandError: it is none.
    """
    word, *arguments = line.split() or [""]
    read, optional, do = _COMMANDS.get(word, (None, True, None))
    if do is None:
        raise UnknownCommandError(f"no command {word!r}; there are {', '.join(_COMMANDS)}")
    if len(arguments) > (read is not None) or not (arguments or optional):
        raise UnknownCommandError(f"{word} takes {'one argument' if read else 'no argument'}")
    try:
        values = [read(argument) for argument in arguments] if read else []
    except (KeyError, ValueError):
        raise UnknownCommandError(f"{word} cannot be {arguments[0]!r}") from None
    return lambda control: do(control, *values)
