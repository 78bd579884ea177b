"""What a rendering may be told: which targets, which promises, and whether a sidecar is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import inf

from vllm_observe import thresholds
from vllm_observe.alerts.promql import SERVER, Scope
from vllm_observe.errors import ConfigError
from vllm_observe.model import ServiceClass

__all__ = ["RuleOptions"]


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """What the rules are made for.

    Attributes:
        scope: the targets that the rules watch.
        max_num_seqs: vLLM's ``--max-num-seqs`` where Prometheus scrapes vLLM itself and no sidecar;
            ``None`` where it scrapes sidecars, which know.
        service_class: what a server is where no sidecar says.
        targets: each service class's latency targets, in seconds.
        ttft_objective, availability_objective: shares of requests, above 0 and below 1.
        tokens_per_second: the generated tokens a second that a model must give while requests wait;
            ``None`` promises nothing.
        gpu: whether to watch GPUs through DCGM's exporter.
        gpu_scope: which of its GPUs.
        runbook_url: where the runbooks are; ``/NAME.md`` is put behind its path. Unasked it is their folder in
            this project: a path that is there is worth more than an address that is not.
        dashboard_url: Grafana's address; ``/d/UID`` is put behind its path. Unasked that stands alone, to be
            put there by hand.
        admin_url: where people reach the sidecar's admin listener, without a query; empty where they do not.
    """

    scope: Scope = field(default_factory=Scope)
    max_num_seqs: int | None = None
    service_class: ServiceClass = ServiceClass.INTERACTIVE
    targets: Mapping[ServiceClass, thresholds.Targets] = field(default_factory=lambda: thresholds.TARGETS)
    ttft_objective: float = thresholds.TTFT_OBJECTIVE
    availability_objective: float = thresholds.AVAILABILITY_OBJECTIVE
    tokens_per_second: float | None = None
    gpu: bool = True
    gpu_scope: Scope = field(default_factory=Scope)
    runbook_url: str = "alerts/runbooks"
    dashboard_url: str = ""
    admin_url: str = ""

    def __post_init__(self) -> None:
        """Refuse to watch every target that there is, and a promise that is none.

        Raises:
            ConfigError: the promise is no number above 0; or without a sidecar nothing but the scope tells a vLLM that is down from any other
                target that is.
        """
        promised = self.tokens_per_second
        if promised is not None and not 0 < promised < inf:
            raise ConfigError("--tokens-per-second must be a number above 0, such as 500")
        if not self.behind_sidecar and not self.scope.matchers:
            raise ConfigError(
                "--max-num-seqs needs --selector, such as 'job=\"vllm\"': which of Prometheus's targets are vLLM's?"
            )

    @property
    def usual(self) -> bool:
        """Whether all that decides when a rule fires is as it is unasked."""
        places = {"runbook_url", "dashboard_url", "admin_url"}
        same = RuleOptions()
        return all(
            getattr(self, f.name) == getattr(same, f.name) for f in fields(self) if f.name not in places
        )

    @property
    def behind_sidecar(self) -> bool:
        """Whether Prometheus scrapes sidecars, and not vLLM itself."""
        return self.max_num_seqs is None

    @property
    def ttft_histogram(self) -> str:
        """What tells the time to first token, in seconds: as users felt it, or as the engine saw it."""
        return (
            "vllm_observe_request_ttft_seconds" if self.behind_sidecar else "vllm:time_to_first_token_seconds"
        )

    @property
    def classes(self) -> tuple[ServiceClass, ...]:
        """The service classes that can be told apart: only a sidecar says which one a server is."""
        return tuple(ServiceClass) if self.behind_sidecar else (self.service_class,)

    def of_class(self, service_class: ServiceClass, window: str = "") -> str:
        """Return what keeps only the series of servers of one class, to be put behind an expression.

        Args:
            service_class: the class.
            window: such as ``3d``: servers that were of that class within it, and may be gone.
        """
        if not self.behind_sidecar:
            return ""
        info = self.scope("vllm_observe_target_info", f'service_class="{service_class.value}"')
        servers = f"last_over_time({info}[{window}])" if window else info
        return f" and on ({SERVER}) {servers}"
