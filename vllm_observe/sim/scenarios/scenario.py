"""A scenario: a server, its clients, and what befalls them; and what of that is to be seen."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_observe.model import ServiceClass
from vllm_observe.sim.cost import Cost
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.labels import Promise
from vllm_observe.sim.scenarios.clients import Clients
from vllm_observe.sim.scenarios.incidents import NOTHING, Deed, Incident, delay_at, timeline
from vllm_observe.sim.scenarios.workloads import Workload
from vllm_observe.sim.scheduler import EngineLimits
from vllm_observe.thresholds import TARGETS

__all__ = ["Scenario"]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One story. It begins with a server that is loaded and idle, at second 0.

    Attributes:
        summary: what happens, in one line.
        shows: what a person on call should see, in one or two sentences.
        seconds: how long it takes.
        load_s: how long a restart takes.
        starting: whether it begins with a start of the server.
        incidents: in the order of time; one that expects nothing is noise of a healthy day.
        allowed: names of alerts that may fire though nothing is wrong.
    """

    name: str
    summary: str
    shows: str
    limits: EngineLimits
    cost: Cost
    workload: Workload
    seconds: float
    incidents: tuple[Incident, ...] = ()
    allowed: tuple[str, ...] = ()
    engines: int = 1
    load_s: float = 60.0
    starting: bool = False
    service_class: ServiceClass = ServiceClass.INTERACTIVE
    model: str = "llama-3.3-70b"

    @property
    def healthy(self) -> bool:
        """Whether nothing may come of it that anybody would want to know of."""
        return all(incident.expected == NOTHING for incident in self.incidents)

    @property
    def promise(self) -> Promise:
        """What its requests are promised."""
        targets = TARGETS[self.service_class]
        return Promise(targets.ttft, targets.tpot)

    @property
    def timeline(self) -> list[Deed]:
        """All that is done to its server, in the order of time."""
        return timeline(self.incidents)

    def deployment(self, seed: int = 0) -> Deployment:
        """Make its server."""
        return Deployment(
            model=self.model,
            limits=self.limits,
            cost=self.cost,
            engines=self.engines,
            seed=seed,
            load_s=self.load_s,
            now=0.0 if self.starting else -self.load_s,
        )

    def clients(self, seed: int = 0, *, prefix: str = "") -> Clients:
        """Make its clients, those that an incident brings included."""
        brought = tuple(source for incident in self.incidents for source in incident.traffic)
        return Clients(
            (*self.workload, *brought),
            context=self.limits.max_model_len,
            seed=seed,
            delay=lambda when: delay_at(self.incidents, when),
            prefix=prefix,
        )
