"""``vllm-observe preview``: draw a board from live data, without Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["preview"]


def preview(
    board: Annotated[
        str,
        typer.Argument(
            metavar="BOARD",
            help="overview, engine, requests, service-levels, rollout or sidecar; or a board's JSON file.",
        ),
    ],
    prometheus: Annotated[str, typer.Option(metavar="URL", help="The Prometheus that is asked.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to: a .png or an .html file.")
    ],
    variable: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Pick a value of a variable; may be given several times."),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="From when on: how long before the end, or a time.")
    ] = "1h",
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Till when: 5m ago, or a time; now if not given.")
    ] = None,
    width: Annotated[int, typer.Option(min=400, max=8000, help="The width in pixels.")] = 1600,
    scrape_interval: Annotated[
        str,
        typer.Option(metavar="TIME", help="Prometheus's scrape interval, as Grafana's data source has it."),
    ] = "15s",
    token_file: Annotated[
        Path | None, typer.Option(help="Holds Prometheus's bearer token.", exists=True, dir_okay=False)
    ] = None,
) -> None:
    """Draw a board from what a Prometheus holds, laid out as in Grafana."""
    from vllm_observe.cli.output import write
    from vllm_observe.errors import VllmObserveError

    try:
        from vllm_observe.preview import command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"matplotlib", "numpy", "PIL"}:
            raise
        raise VllmObserveError("preview needs matplotlib: pip install 'vllm-observe[preview]'") from None

    command.run(
        board=board,
        prometheus=prometheus,
        output=output,
        picked=variable or [],
        since=since,
        until=until,
        width=width,
        scrape_interval=scrape_interval,
        token_file=token_file,
    )
    write(f"{output}\n")
