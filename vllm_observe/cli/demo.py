"""``vllm-observe demo``: see the product at work without a GPU."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from vllm_observe.clock import Clock
    from vllm_observe.demo.run import Demo

__all__ = ["demo"]

_LOOK_EVERY_S = 1.0
#: How long a vLLM of one's own is watched where nobody could end it; a scenario has an end.
_UNATTENDED_S = 30.0


def demo(
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME", help="What happens. [default: slots-exhausted]")
    ] = None,
    list_scenarios: Annotated[bool, typer.Option("--list", help="Name the scenarios and leave.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines in place of a view.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1, help="When to end. [default: Ctrl-C; where there is no terminal, with the story]"
        ),
    ] = None,
    vllm_url: Annotated[
        str | None, typer.Option(help="A vLLM of your own to watch, in place of the simulated one.")
    ] = None,
    request_log: Annotated[
        list[str] | None, typer.Option(help="The log of what your own vLLM is asked; may be repeated.")
    ] = None,
) -> None:
    """Run the sidecar beside a simulated vLLM with an incident, and show what it sees."""
    from vllm_observe.clock import SystemClock
    from vllm_observe.demo.alerting import programs
    from vllm_observe.demo.child import ChildEndedError
    from vllm_observe.demo.run import Demo, EndedEarlyError, OwnVllm, signals_held
    from vllm_observe.demo.story import DEFAULT, Story, told
    from vllm_observe.errors import ConfigError, VllmObserveError

    if list_scenarios:
        _list()
        return
    if request_log and vllm_url is None:
        raise ConfigError("--request-log goes with --vllm-url: the simulated vLLM has logs of its own")
    if scenario is not None and vllm_url is not None:
        raise ConfigError("--scenario is played on the simulated vLLM: leave --vllm-url out")
    watched = Story(told(scenario or DEFAULT)) if vllm_url is None else OwnVllm(vllm_url, request_log or ())
    if seconds is None and not sys.stdout.isatty():
        seconds = watched.scenario.seconds if isinstance(watched, Story) else _UNATTENDED_S
    clock = SystemClock()
    try:
        with (
            signals_held() as ended,
            Demo(watched, found=programs(), clock=clock, ended=ended) as running,
        ):
            running.start()
            _show(running, plain=plain, seconds=seconds, ended=ended, clock=clock)
    except EndedEarlyError:
        return
    except ChildEndedError as error:
        sys.stderr.write(error.log + "\n" if error.log else "")
        raise
    except OSError as error:  # no room or no right to write files, no loopback
        raise VllmObserveError(f"the demo cannot run here: {error}") from None


def _list() -> None:
    from vllm_observe.cli.output import write
    from vllm_observe.demo.story import STORIES
    from vllm_observe.sim.scenarios.registry import SCENARIOS

    for name in STORIES:
        write(f"{name:19}{SCENARIOS[name].summary}\n")


def _show(
    running: Demo, *, plain: bool, seconds: float | None, ended: Callable[[float], bool], clock: Clock
) -> None:
    from vllm_observe.cli.demo_lines import DemoLines
    from vllm_observe.cli.demo_picture import Watcher
    from vllm_observe.cli.demo_view import DemoView
    from vllm_observe.cli.live import can_redraw, redrawn
    from vllm_observe.cli.output import write

    watcher, program = Watcher(running, clock), _program()

    def goes_on() -> bool:
        """Wait for the next look; say whether there is one."""
        now = running.now
        pause = _LOOK_EVERY_S - now % _LOOK_EVERY_S
        over = ended(pause if seconds is None else max(0.0, min(pause, seconds - now)))
        running.check()
        return not over and (seconds is None or running.now < seconds)

    if plain or not can_redraw():
        lines = DemoLines(running, program=program, say=lambda line: write(line + "\n"))
        lines.begin()
        lines.show(watcher.look())
        while goes_on():
            lines.show(watcher.look())
        lines.end(watcher.look())
        return
    with redrawn() as draw:
        draw(DemoView(running, watcher.look(), program=program, over=False))
        while goes_on():
            draw(DemoView(running, watcher.look(), program=program, over=False))
        draw(DemoView(running, watcher.look(), program=program, over=True))


def _program() -> str:
    """Return how the user can call this program."""
    called = Path(sys.argv[0])
    if shutil.which("vllm-observe"):
        return "vllm-observe"
    return shlex.quote(str(called)) if called.name == "vllm-observe" else f"{sys.executable} -m vllm_observe"
