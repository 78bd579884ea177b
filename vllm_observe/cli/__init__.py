"""The command line: thin, one module a command, heavy imports inside the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from vllm_observe import __version__
from vllm_observe.cli.alerts import render_alerts
from vllm_observe.cli.check_rules import check_rules
from vllm_observe.cli.dashboards import render_dashboards
from vllm_observe.cli.demo import demo
from vllm_observe.cli.exporter import exporter
from vllm_observe.cli.install_plugin import install_plugin
from vllm_observe.cli.preview import preview
from vllm_observe.cli.requests import explain, requests, sessions
from vllm_observe.cli.status import status
from vllm_observe.cli.words import printable
from vllm_observe.errors import ConfigError, VllmObserveError

__all__ = ["app", "main"]

app = typer.Typer(
    name="vllm-observe",
    help="Which request was slow on your vLLM server, whose it was, and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command(name="check-rules")(check_rules)
app.command(name="demo")(demo)
app.command(name="explain")(explain)
app.command(name="exporter")(exporter)
app.command(name="install-plugin")(install_plugin)
app.command(name="preview")(preview)
app.command(name="render-dashboards")(render_dashboards)
app.command(name="render-alerts")(render_alerts)
app.command(name="requests")(requests)
app.command(name="sessions")(sessions)
app.command(name="status")(status)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vllm-observe {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0 well, 1 problems found, 2 wrong use."""
    # A supervisor may start us without the standard streams; writing to them would fail with no word.
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    try:
        code = app(args=arguments, prog_name="vllm-observe", standalone_mode=False)
    except ConfigError as error:
        code = _complain(str(error), 2)
    except VllmObserveError as error:
        code = _complain(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):  # which of them depends on typer's release
        code = 130
    except OSError as error:
        code = _complain(f"standard output cannot be written: {error.strerror}", 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else it fails once more at exit
    except Exception as error:
        # A wrong use that typer found; anything else is a fault of ours and keeps its traceback.
        if not hasattr(error, "format_message"):
            raise
        code = _complain(_wrong_use(error), getattr(error, "exit_code", 2))
    sys.exit(code or 0)


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _wrong_use(error: Any) -> str:
    """Say what typer found wrong, and where to read what is right. It has shown the help where it says nothing."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if message and context else message


def _complain(message: str, code: int) -> int:
    if message:
        sys.stderr.write(f"vllm-observe: {printable(' '.join(message.split()), width=1000)}\n")
    return code
