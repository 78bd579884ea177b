"""``vllm-observe status``: one look at a vLLM or at a sidecar, or a live view of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vllm_observe.durations import parse_duration
from vllm_observe.errors import ConfigError

if TYPE_CHECKING:
    from vllm_observe.cli.sources import Source
    from vllm_observe.clock import Clock

__all__ = ["status"]

_VLLM = "http://127.0.0.1:8000"
_SIDECAR = "http://127.0.0.1:9810"
#: A look has vLLM render its metrics on the event loop that serves requests.
_SHORTEST_INTERVAL_S = 1.0


def status(
    context: typer.Context,
    vllm_url: Annotated[
        str, typer.Option(envvar="VLLM_OBSERVE_VLLM_URL", help="A vLLM's address: ask it directly.")
    ] = _VLLM,
    sidecar: Annotated[
        str, typer.Option(help="A sidecar's --admin-listen address: ask it what it sees.")
    ] = _SIDECAR,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option(help="Between two looks, 1s or more.")] = "5s",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; with --watch one line for each look.")
    ] = False,
    max_num_seqs: Annotated[
        int | None,
        typer.Option(
            min=1,
            envvar="VLLM_OBSERVE_MAX_NUM_SEQS",
            help="vLLM's --max-num-seqs, where it cannot be found out.",
        ),
    ] = None,
    metrics_path: Annotated[
        str, typer.Option(envvar="VLLM_OBSERVE_METRICS_PATH", help="Where vLLM's metrics are.")
    ] = "/metrics",
    scrape_token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="VLLM_OBSERVE_SCRAPE_TOKEN_FILE",
            exists=True,
            dir_okay=False,
            help="Holds the bearer token for vLLM.",
        ),
    ] = None,
    scrape_ca_file: Annotated[
        Path | None,
        typer.Option(
            envvar="VLLM_OBSERVE_SCRAPE_CA_FILE",
            exists=True,
            dir_okay=False,
            help="Holds the certificates to trust.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Holds the bearer token for the sidecar.")
    ] = None,
) -> None:
    """Show a vLLM's state now: what is full, who waits, how long things take.

    It asks a sidecar on this machine if there is one, and else the vLLM on it; an option of either
    says which. Leaves with 1 where vLLM does not serve or its state is not known.
    """
    from vllm_observe.clock import SystemClock

    clock = SystemClock()
    seconds = _seconds(interval)
    source = _source(context, seconds, clock)
    if watch:
        from vllm_observe.cli.live import keep_looking

        code = keep_looking(source, interval=seconds, as_json=as_json, clock=clock)
    else:
        from vllm_observe.cli.look import look_once

        code = look_once(source, as_json=as_json)
    raise typer.Exit(code)


def _seconds(interval: str) -> float:
    try:
        seconds = parse_duration(interval)
    except ValueError as error:
        raise ConfigError(f"--interval {error}") from None
    if seconds < _SHORTEST_INTERVAL_S:
        raise ConfigError(
            "--interval must be 1s or more: each look takes time from the requests that vLLM serves"
        )
    return seconds


#: The options that say what is asked, by whose they are. ``--scrape-ca-file`` serves either.
_OF_VLLM = ("vllm_url", "metrics_path", "max_num_seqs", "scrape_token_file")
_OF_A_SIDECAR = ("sidecar", "token_file")


def _source(context: typer.Context, interval: float, clock: Clock) -> Source:
    """Return what the options ask for: a vLLM, a sidecar, or whichever is there."""
    from vllm_observe.cli.sources import (
        DefaultSource,
        SidecarOptions,
        SidecarSource,
        VllmOptions,
        VllmSource,
    )

    options = context.params
    of_vllm = [name for name in _OF_VLLM if _given(context, name)]
    of_a_sidecar = [name for name in _OF_A_SIDECAR if _given(context, name)]
    if of_vllm and of_a_sidecar:
        raise ConfigError(
            f"{_flag(of_a_sidecar[0])} asks a sidecar and {_flag(of_vllm[0])} a vLLM: give one of the two"
        )
    vllm = VllmSource(
        VllmOptions(
            url=options["vllm_url"],
            metrics_path=options["metrics_path"],
            max_num_seqs=options["max_num_seqs"],
            token_file=options["scrape_token_file"],
            ca_file=options["scrape_ca_file"],
        ),
        interval=interval,
        clock=clock,
    )
    if of_vllm:
        return vllm
    sidecar = SidecarSource(
        SidecarOptions(
            url=options["sidecar"], token_file=options["token_file"], ca_file=options["scrape_ca_file"]
        ),
        clock=clock,
    )
    return sidecar if of_a_sidecar else DefaultSource(sidecar=sidecar, vllm=vllm)


def _given(context: typer.Context, name: str) -> bool:
    """Say whether an option stands on the command line; what the environment says is only a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
