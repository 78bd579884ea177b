"""``vllm-observe render-dashboards``: write the Grafana boards, or check that they are up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["render_dashboards"]


def render_dashboards(
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to write to; made if need be.")
    ] = Path("dashboards"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 and name the files that differ.")
    ] = False,
    metric_prefix: Annotated[
        str,
        typer.Option(
            metavar="P", help="What vLLM's metrics begin with, such as ray_vllm: where no sidecar is scraped."
        ),
    ] = "vllm:",
    vllm_version: Annotated[
        str | None,
        typer.Option(metavar="V", help="Use the names of this release, where no sidecar is scraped."),
    ] = None,
    kubernetes: Annotated[
        bool,
        typer.Option("--kubernetes", help="Write ConfigMaps, as the sidecar of Grafana's chart loads them."),
    ] = False,
) -> None:
    """Write the Grafana boards as JSON, ready to import or to provision."""
    from vllm_observe.cli.rendered import write_or_check
    from vllm_observe.dashboards import Options, config_maps, files
    from vllm_observe.signals import NEWEST

    options = Options(metric_prefix=metric_prefix, vllm_version=vllm_version)
    if options.newer_than_known:
        typer.echo(
            f"vllm-observe: --vllm-version {vllm_version} is newer than {NEWEST}, whose names are used",
            err=True,
        )
    rendered = (config_maps if kubernetes else files)(options)
    write_or_check(rendered, output=output, check=check, command="render-dashboards")
