"""``vllm-observe check-rules``: find the rules that can never fire, and what else is wrong with them."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["check_rules"]


def check_rules(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Rule files or PrometheusRule objects, folders or patterns."),
    ],
    exposition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL|FILE",
            help="A live or saved /metrics page to check against; may be given several times.",
        ),
    ] = None,
    vllm_version: Annotated[
        str | None,
        typer.Option(
            metavar="V", help="Without a page: the release whose names count; today's if not given."
        ),
    ] = None,
    scrape_interval: Annotated[
        str, typer.Option(metavar="TIME", help="Prometheus's scrape interval.")
    ] = "15s",
    disable: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Leave out a check; may be given several times."),
    ] = None,
    level: Annotated[
        str, typer.Option(metavar="LEVEL", help="The least that is told: error, warning or info.")
    ] = "info",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 for warnings too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Check Prometheus rules against what vLLM exposes: names, labels, buckets, units and logic."""
    from vllm_observe.cli.output import write
    from vllm_observe.errors import VllmObserveError

    try:
        from vllm_observe.alerts.lint import command
    except ModuleNotFoundError as error:
        if error.name != "promql_parser":
            raise
        raise VllmObserveError("check-rules needs promql-parser: pip install promql-parser") from None

    checked = command.run(
        command.Asked(
            files=files,
            expositions=exposition or (),
            vllm_version=vllm_version,
            scrape_interval=scrape_interval,
            disabled=disable or (),
            strict=strict,
            least=level,
            json=as_json,
        )
    )
    if checked.notice:
        typer.echo(f"vllm-observe: {checked.notice}", err=True)
    write(checked.report)
    raise typer.Exit(checked.code)
