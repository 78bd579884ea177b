"""``vllm-observe exporter``: run the sidecar."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["exporter"]


def exporter(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="A YAML file with any of the settings.")] = None,
    vllm_url: Annotated[
        str | None, typer.Option(help="vLLM's address. [default: http://127.0.0.1:8000]")
    ] = None,
    metrics_path: Annotated[
        str | None, typer.Option(help="Where its metrics are. [default: /metrics]")
    ] = None,
    request_log: Annotated[
        list[str] | None, typer.Option(help="A request log to follow, or a glob; may be repeated.")
    ] = None,
    engine_log: Annotated[Path | None, typer.Option(help="vLLM's own log, read for its limits.")] = None,
    checkpoint_file: Annotated[
        Path | None, typer.Option(help="Keeps how far the request logs were read, over restarts.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Keeps the requests, in this SQLite file, over restarts.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where Prometheus scrapes this sidecar. [default: 0.0.0.0:9809]")
    ] = None,
    admin_listen: Annotated[
        str | None, typer.Option(help="Where people and scripts ask it. [default: 127.0.0.1:9810]")
    ] = None,
    scrape_interval: Annotated[
        str | None, typer.Option(help="Between two scrapes of vLLM, 1s or more. [default: 5s]")
    ] = None,
    scrape_timeout: Annotated[str | None, typer.Option(help="A scrape's deadline. [default: 4s]")] = None,
    scrape_token_file: Annotated[
        Path | None, typer.Option(help="Holds the bearer token that the scrape sends.")
    ] = None,
    scrape_ca_file: Annotated[
        Path | None, typer.Option(help="Holds the certificates that the scrape trusts.")
    ] = None,
    join_window: Annotated[
        str | None, typer.Option(help="How long a request's parts wait for each other. [default: 60s]")
    ] = None,
    stall_after: Annotated[
        str | None, typer.Option(help="With work and no token so long, an engine is stalled. [default: 5m]")
    ] = None,
    max_num_seqs: Annotated[
        int | None, typer.Option(help="vLLM's --max-num-seqs, where it cannot be found out.")
    ] = None,
    service_class: Annotated[
        str | None, typer.Option(help="interactive or batch: which targets apply. [default: interactive]")
    ] = None,
    target_ttft: Annotated[str | None, typer.Option(help="The class's time to first token.")] = None,
    target_tpot: Annotated[str | None, typer.Option(help="The class's time per output token.")] = None,
    target_e2e: Annotated[str | None, typer.Option(help="The class's whole duration.")] = None,
    log_format: Annotated[str | None, typer.Option(help="auto, json or text.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
) -> None:
    """Run the sidecar: one clean OpenMetrics page from vLLM's metrics and its request logs."""
    # One that comes while we load waits until the sidecar asks for it; by default it would kill us.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from vllm_observe.sidecar import run

    # A flag that was not given is None, so that the environment and the file count.
    flags = {name: value for name, value in context.params.items() if name not in ("config", "request_log")}
    run(config=config, flags=flags | {"request_logs": request_log})
