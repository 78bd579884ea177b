"""``vllm-observe render-alerts``: write the rules and Alertmanager's configuration, or check them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vllm_observe.alerts.options import RuleOptions
    from vllm_observe.model import ServiceClass
    from vllm_observe.thresholds import Targets

__all__ = ["render_alerts"]

_IN_A_FILE = (
    "in an alertmanager.yml of your own let a file hold it, named by the receiver's "
    "http_config.authorization.credentials_file or http_config.basic_auth.password_file"
)


def render_alerts(
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder to write to; made if need be.")
    ] = Path("alerts"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 and name the files that differ.")
    ] = False,
    kubernetes: Annotated[
        bool,
        typer.Option(
            "--kubernetes",
            help="Write what the Prometheus Operator takes: PrometheusRule objects and a Secret for Alertmanager.",
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="The sidecar's YAML file: its service class and its targets.", dir_okay=False),
    ] = None,
    selector: Annotated[
        str, typer.Option(metavar="MATCHERS", help="Watch only these targets, such as 'job=\"vllm\"'.")
    ] = "",
    max_num_seqs: Annotated[
        int | None,
        typer.Option(min=1, help="vLLM's --max-num-seqs: for rules on vLLM's own page, without a sidecar."),
    ] = None,
    vllm_url: Annotated[
        str | None,
        typer.Option(help="A vLLM or a sidecar to ask whether the targets are buckets of its histograms."),
    ] = None,
    tokens_per_second: Annotated[
        float | None, typer.Option(min=0, help="Alert below so many generated tokens a second under load.")
    ] = None,
    gpu: Annotated[bool, typer.Option(help="With the rules for DCGM's exporter.")] = True,
    gpu_selector: Annotated[
        str,
        typer.Option(
            metavar="MATCHERS", help="Watch only these of DCGM's GPUs, such as 'Hostname=~\"gpu-.*\"'."
        ),
    ] = "",
    runbook_url: Annotated[
        str | None, typer.Option(help="Where the runbooks are served; else links are paths.")
    ] = None,
    dashboard_url: Annotated[
        str | None, typer.Option(help="Grafana's address; else links are paths behind it.")
    ] = None,
    admin_url: Annotated[
        str, typer.Option(help="Where people reach the sidecar's admin listener, for links.")
    ] = "",
    webhook_url: Annotated[
        str | None,
        typer.Option(
            help="Send all messages to this webhook, not to PagerDuty and Slack: /pager or /chat is put behind its path."
        ),
    ] = None,
) -> None:
    """Write the alerting rules, Alertmanager's routes and the runbooks."""
    from dataclasses import replace

    from vllm_observe.alerts.addresses import address_of
    from vllm_observe.alerts.alertmanager import Receivers
    from vllm_observe.alerts.arguments import gpu_scope_of, scope_of
    from vllm_observe.alerts.buckets import check_targets
    from vllm_observe.alerts.options import RuleOptions
    from vllm_observe.alerts.render import alert_files
    from vllm_observe.cli.rendered import write_or_check
    from vllm_observe.config import load_settings

    settings = load_settings(config=config, flags={})
    webhook = None if webhook_url is None else address_of("--webhook-url", webhook_url, instead=_IN_A_FILE)
    options = RuleOptions(
        scope=scope_of("--selector", selector),
        max_num_seqs=max_num_seqs,
        service_class=settings.service_class,
        targets=_targets(settings.service_class, settings.targets),
        tokens_per_second=tokens_per_second,
        gpu=gpu,
        gpu_scope=gpu_scope_of("--gpu-selector", gpu_selector),
        admin_url=address_of("--admin-url", admin_url, query=False) if admin_url else "",
    )
    if runbook_url is not None:
        options = replace(options, runbook_url=address_of("--runbook-url", runbook_url))
    if dashboard_url is not None:
        options = replace(options, dashboard_url=address_of("--dashboard-url", dashboard_url))
    check_targets(options, _bounds(options, vllm_url))
    files = alert_files(options, Receivers(webhook_url=webhook), kubernetes=kubernetes)
    # Both forms may stand side by side, as those of the boards.
    folders = ("kubernetes", "runbooks") if kubernetes else (".", "rules", "runbooks", "tests")
    write_or_check(files, output=output, check=check, command="render-alerts", folders=folders)


def _targets(service_class: ServiceClass, configured: Targets) -> Mapping[ServiceClass, Targets]:
    """The configured class's targets, and the usual ones of the other."""
    from vllm_observe.thresholds import TARGETS

    return {**TARGETS, service_class: configured}


def _bounds(options: RuleOptions, url: str | None) -> tuple[float, ...]:
    """The buckets of the time to first token, as a live page has them, or as they usually are."""
    from vllm_observe.alerts.buckets import bounds_of, known_bounds

    if url is None:
        return known_bounds(options.ttft_histogram)
    from vllm_observe.clock import SystemClock
    from vllm_observe.engine.exposition import ExpositionParser
    from vllm_observe.engine.fetch import Fetcher

    fetched = Fetcher(url=url, timeout=5.0, clock=SystemClock()).fetch()
    page = ExpositionParser().parse(fetched.body, fetched.content_type)
    return bounds_of(options.ttft_histogram, page.families)
