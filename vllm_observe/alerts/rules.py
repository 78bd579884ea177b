"""All rules, in the order in which a person reads them."""

from __future__ import annotations

from vllm_observe.alerts.groups.availability import availability
from vllm_observe.alerts.groups.capacity import capacity
from vllm_observe.alerts.groups.efficiency import efficiency
from vllm_observe.alerts.groups.gpu import gpu
from vllm_observe.alerts.groups.latency import latency
from vllm_observe.alerts.groups.observer import observer
from vllm_observe.alerts.groups.service_levels import service_levels
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.rule import Group

__all__ = ["rule_groups"]


def rule_groups(options: RuleOptions) -> tuple[Group, ...]:
    """Return every group of rules."""
    makers = (
        availability,
        capacity,
        latency,
        service_levels,
        efficiency,
        *((observer,) if options.behind_sidecar else ()),
        *((gpu,) if options.gpu else ()),
    )
    return tuple(make(options) for make in makers)
