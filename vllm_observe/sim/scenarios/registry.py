"""Every scenario by its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vllm_observe.sim.scenarios.faults import FAULTS
from vllm_observe.sim.scenarios.healthy import HEALTHY
from vllm_observe.sim.scenarios.overload import OVERLOADS
from vllm_observe.sim.scenarios.scenario import Scenario

__all__ = ["SCENARIOS"]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {scenario.name: scenario for scenario in (*OVERLOADS, *FAULTS, *HEALTHY)}
)
