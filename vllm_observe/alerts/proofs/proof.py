"""What a proof is: a story of series, and what must fire when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from vllm_observe.alerts.proofs.course import STEP, Course
from vllm_observe.alerts.rule import Severity
from vllm_observe.model import ServiceClass

__all__ = ["Check", "Identity", "Proof", "Scene", "critical", "info", "over", "under", "warning"]

#: How far beyond a threshold a proof goes.
_MARGIN = 0.02


@dataclass(frozen=True, order=True)
class Identity:
    """Which rule: a name may have several, of different severity or window or class."""

    severity: Severity
    alert: str
    window: str = ""
    service_class: str = ServiceClass.INTERACTIVE.value


critical = partial(Identity, Severity.CRITICAL)
warning = partial(Identity, Severity.WARNING)
info = partial(Identity, Severity.INFO)


def over(threshold: float) -> float:
    """A little more than a threshold."""
    return threshold * (1 + _MARGIN)


def under(threshold: float) -> float:
    """A little less than a threshold."""
    return threshold * (1 - _MARGIN)


@dataclass(frozen=True)
class Check:
    """What fires at a second.

    Attributes:
        at: the second.
        firing: all that fires then; of ``only`` alone where that is given.
        only: the one rule that is asked for.
    """

    at: int
    firing: tuple[Identity, ...] = ()
    only: Identity | None = None


@dataclass(frozen=True)
class Scene:
    """A story: what of a healthy page is different, and what is to be seen of it."""

    says: str
    changes: Mapping[str, Course | None]
    checks: tuple[Check, ...]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """That a rule fires just over its threshold and after its ``for``, and not just under or before.

    Attributes:
        rule: which.
        fires: what of a healthy page is different where it fires.
        quiet: the twin, just on the other side.
        onset: the second from which the condition holds.
        beside: what else fires when it does.
        quiet_beside: what fires instead at that time in the twin.
        guarded: what is different beside ``fires`` where a guard keeps it quiet all the same, by a reason.
        guarded_after: how many seconds after the onset that is looked at, beside the rule's ``for``.
    """

    rule: Identity
    fires: Mapping[str, Course | None]
    quiet: Mapping[str, Course | None]
    onset: int = 0
    beside: tuple[Identity, ...] = ()
    quiet_beside: tuple[Identity, ...] = ()
    guarded: Mapping[str, Mapping[str, Course | None]] = field(default_factory=dict)
    guarded_after: int = 0

    def scenes(self, hold: int) -> tuple[Scene, ...]:
        """Return the stories.

        Args:
            hold: the rule's ``for`` in seconds.
        """
        at = self.onset + hold
        # Two steps before: Prometheus 3 leaves out a window's oldest sample, which 2 takes in.
        before = Check(max(0, at - 2 * STEP), (), only=self.rule)
        name = " ".join(filter(None, (self.rule.alert, self.rule.severity.value, self.rule.window)))
        return (
            Scene(
                f"{name}, {self.rule.service_class}: fires",
                self.fires,
                (before, Check(at, (self.rule, *self.beside))),
            ),
            Scene(
                f"{name}, {self.rule.service_class}: stays quiet", self.quiet, (Check(at, self.quiet_beside),)
            ),
            *(
                Scene(
                    f"{name}, {self.rule.service_class}: stays quiet, {reason}",
                    {**self.fires, **changes},
                    (Check(at + self.guarded_after, (), only=self.rule),),
                )
                for reason, changes in self.guarded.items()
            ),
        )
