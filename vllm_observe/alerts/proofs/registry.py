"""Every proof, by the group whose rules it proves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.proofs.availability import AVAILABILITY
from vllm_observe.alerts.proofs.capacity import CAPACITY
from vllm_observe.alerts.proofs.course import Page
from vllm_observe.alerts.proofs.edges import EDGES
from vllm_observe.alerts.proofs.efficiency import EFFICIENCY
from vllm_observe.alerts.proofs.gpu import GPU
from vllm_observe.alerts.proofs.latency import LATENCY
from vllm_observe.alerts.proofs.observer import OBSERVER
from vllm_observe.alerts.proofs.page import HEALTHY, PLAIN
from vllm_observe.alerts.proofs.plain import PLAIN_EDGES, PLAIN_PROOFS
from vllm_observe.alerts.proofs.proof import Identity, Proof, Scene
from vllm_observe.alerts.proofs.render import holds
from vllm_observe.alerts.proofs.service_levels import SERVICE_LEVELS
from vllm_observe.alerts.rule import Group

__all__ = ["edges", "page_of", "proofs_of"]

_PROOFS = (*AVAILABILITY, *CAPACITY, *LATENCY, *SERVICE_LEVELS, *EFFICIENCY, *OBSERVER, *GPU)


def proofs_of(groups: Iterable[Group], options: RuleOptions) -> Mapping[Identity, Proof]:
    """Return the proofs of the rules that are there; where Prometheus scrapes vLLM, some are others."""
    proofs = {proof.rule: proof for proof in _PROOFS}
    if not options.behind_sidecar:
        proofs |= {proof.rule: proof for proof in PLAIN_PROOFS}
    return {rule: proofs[rule] for rule in holds(groups) if rule in proofs}


def edges(options: RuleOptions) -> tuple[Scene, ...]:
    """Return what is on no side of a threshold."""
    return EDGES if options.behind_sidecar else PLAIN_EDGES


def page_of(options: RuleOptions) -> Page:
    """Return what Prometheus sees of a healthy server."""
    return HEALTHY if options.behind_sidecar else PLAIN
