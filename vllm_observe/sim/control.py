"""What can be done to a simulated server and to what observes it, on any clock: incidents are made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.engine import State

__all__ = ["Act", "Control", "Deed"]


@dataclass
class Control:
    """A server, and what is wrong with the ways in which it is observed; who serves or plays it heeds these.

    Attributes:
        deployment: the server.
        log_stopped: whether no line of any request log arrives; those of meanwhile are lost.
        scrape_fails: whether /metrics does not answer, though requests are served.
        scrape_delay_s: how much longer it takes to answer.
    """

    deployment: Deployment
    log_stopped: bool = False
    scrape_fails: bool = False
    scrape_delay_s: float = 0.0

    def slow_down(self, factor: float) -> None:
        """Let every step take so many times what it should; 1 is sound again."""
        self.deployment.slow_down(factor)

    def hang(self) -> None:
        """Let the engines make no progress and say nothing; /health still says 200."""
        self.deployment.become(State.HUNG)

    def sleep(self) -> None:
        """Let the engines sleep, and say so."""
        self.deployment.become(State.SLEEPING)

    def serve(self) -> None:
        """Let engines that hang or sleep go on."""
        self.deployment.become(State.SERVING)

    def crash(self, status: int | None = None) -> None:
        """Let the engines die; the server answers errors, with this HTTP status if it is not 500."""
        self.deployment.crash(status)

    def restart(self, load_s: float | None = None) -> None:
        """Begin again with a new process, which loads the model first; what runs fails."""
        self.deployment.restart(load_s)

    def swap(self, *, prefix_caching: bool = True) -> None:
        """Put a new process that is ready in the place of this one, which ends what it has begun."""
        self.deployment.swap(replace(self.deployment.limits, prefix_caching=prefix_caching))

    def forget_prefixes(self) -> None:
        """Lose what the prefix cache keeps."""
        self.deployment.forget_prefixes()

    def fail_share(self, share: float) -> None:
        """Answer such a share of the requests with a 500 before an engine sees them."""
        self.deployment.fail_share = share

    def stop_log(self, *, stopped: bool) -> None:
        """Let no line of any request log arrive any more, or again."""
        self.log_stopped = stopped

    def fail_scrape(self, *, fails: bool) -> None:
        """Let /metrics answer nothing, or answer again."""
        self.scrape_fails = fails

    def slow_scrape(self, seconds: float) -> None:
        """Let /metrics take so much longer to answer."""
        self.scrape_delay_s = seconds


Act = Callable[[Control], None]


class Deed(NamedTuple):
    """Something that is done at a time, in seconds on the deployment's clock."""

    at: float
    act: Act
