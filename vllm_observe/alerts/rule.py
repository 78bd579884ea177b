"""What a rule is: plain values, rendered elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vllm_observe.model import ServiceClass

__all__ = ["Alert", "Board", "Group", "Recording", "Severity"]


class Severity(str, Enum):
    """Who is told: ``critical`` wakes somebody, ``warning`` waits for the day, ``info`` is only written."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Board(str, Enum):
    """The dashboard that shows an alert's numbers, by the end of its uid."""

    OVERVIEW = "overview"
    ENGINE = "engine"
    REQUESTS = "requests"
    SERVICE_LEVELS = "service-levels"
    SIDECAR = "sidecar"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alerting rule.

    ``summary`` and ``description`` may hold ``{model}``, ``{engine}``, ``{where}`` and the value as
    ``{percent}``, ``{seconds}``, ``{number}`` or ``{count}``; rendering turns them into Prometheus's own
    templates.

    Attributes:
        name: its CamelCase name, the same for a warning and a critical rule about one thing.
        expr: the PromQL; it fires for each series.
        hold: seconds for which the series must be there without a gap.
        summary: one line: what, where, and the value.
        description: what it means, and the first thing to do.
        keep_firing: seconds for which it goes on after the series is gone, where flapping would hurt.
        service_class: the class that it is about; ``None`` takes the one of the server that fires it.
        labels: what else tells it from a rule of its name.
        requests: the admin API's parameters that list the requests concerned.
    """

    name: str
    expr: str
    hold: int
    severity: Severity
    summary: str
    description: str
    board: Board
    keep_firing: int = 0
    service_class: ServiceClass | None = None
    labels: tuple[tuple[str, str], ...] = ()
    requests: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Recording:
    """One recording rule: only where several alerts ask the same thing over long windows."""

    name: str
    expr: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Group:
    """Rules that are evaluated together and stand in one file."""

    name: str
    rules: tuple[Alert | Recording, ...]

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Its alerting rules."""
        return tuple(rule for rule in self.rules if isinstance(rule, Alert))
