"""``vllm-observe demo``: see the product at work without a GPU."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]

#: How long the demo runs where nobody could end it.
_UNATTENDED_S = 30.0


def demo(
    vllm_url: Annotated[
        str | None, typer.Option(help="A vLLM of your own to watch, in place of the recorded one.")
    ] = None,
    request_log: Annotated[
        list[str] | None, typer.Option(help="The log of what your own vLLM is asked; may be repeated.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="When to end. [default: Ctrl-C; 30 s where there is no terminal]"),
    ] = None,
) -> None:
    """Run the sidecar beside a recorded vLLM under load, and tell what it sees."""
    from vllm_observe.cli.output import write
    from vllm_observe.clock import SystemClock
    from vllm_observe.demo.child import SidecarEndedError
    from vllm_observe.demo.run import run
    from vllm_observe.errors import ConfigError, VllmObserveError

    if request_log and vllm_url is None:
        raise ConfigError("--request-log goes with --vllm-url: the recorded vLLM has a log of its own")
    if seconds is None and not sys.stdout.isatty():
        seconds = _UNATTENDED_S
    try:
        run(
            vllm_url=vllm_url,
            request_logs=request_log or (),
            seconds=seconds,
            program=_program(),
            say=lambda line: write(line + "\n"),
            clock=SystemClock(),
        )
    except SidecarEndedError as error:
        sys.stderr.write(error.log + "\n")
        raise
    except OSError as error:  # no room or no right to write files, no loopback
        raise VllmObserveError(f"the demo cannot run here: {error}") from None


def _program() -> str:
    """Return how the user can call this program."""
    called = Path(sys.argv[0])
    if shutil.which("vllm-observe"):
        return "vllm-observe"
    return str(called) if called.name == "vllm-observe" else f"{sys.executable} -m vllm_observe"
