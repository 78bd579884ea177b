"""What joined requests add up to: metrics, sessions, coverage, and what is usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from vllm_observe.clock import Clock
from vllm_observe.config import Settings
from vllm_observe.join.cardinality import LabelCap
from vllm_observe.join.coverage import Coverage
from vllm_observe.join.sessions import Sessions
from vllm_observe.join.usual import UsualRequests
from vllm_observe.model import EngineSample, JoinedRequest
from vllm_observe.pipeline.totals import Totals, by
from vllm_observe.serve.accounting import Accounting
from vllm_observe.serve.instruments import Instruments
from vllm_observe.thresholds import Targets

__all__ = ["Counting"]

#: Longer than most requests take: what they hold meanwhile must not look like a gap in the logs.
_COVERAGE_PERIOD_S = 600.0


class Counting:
    """Counts each joined request once, in every respect.

    Args:
        settings: the bounds, and the targets.
        instruments: where metrics are counted.
        clock: tells the time.

    Attributes:
        usual: what is usual, as learned from them.
        outcomes: requests by outcome.
        causes: slow and failed requests by cause.
    """

    def __init__(self, settings: Settings, *, instruments: Instruments, clock: Clock) -> None:
        self.usual = UsualRequests()
        self.outcomes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self._clock = clock
        self._profiles = LabelCap(limit=settings.max_profiles)
        self._models = LabelCap(limit=settings.max_profiles)
        self._sessions = Sessions(active_for=settings.session_window, limit=settings.max_sessions)
        self._coverage = Coverage(period=max(settings.join_window, _COVERAGE_PERIOD_S))
        self._accounting = Accounting(
            instruments, profiles=self._profiles, models=self._models, targets=settings.targets
        )

    def judge_by(self, targets: Targets) -> None:
        """Judge the requests from now on by these targets."""
        self._accounting.targets = targets

    def take(self, request: JoinedRequest) -> None:
        """Count a request; of one that amends another, only the tokens that it adds are new."""
        self._coverage.claim(request)
        if request.amends:
            return
        self._accounting.joined(request)
        self.outcomes[request.outcome.value] += 1
        if request.evidence is not None:
            self.causes[request.evidence.cause.value] += 1
        self.remember(request)

    def remember(self, request: JoinedRequest) -> None:
        """Learn from a request, though an earlier process may have counted it."""
        self.usual.observe(request)
        self._sessions.ended(request.session_id, request.ended_at, self._clock.wall())

    def scraped(self, models: Collection[str], samples: Collection[EngineSample]) -> None:
        """Note the models that are served and the tokens that were counted, after a successful scrape."""
        self._accounting.serves(models)
        self._coverage.observe(samples, self._clock.monotonic())

    def active_sessions(self) -> int:
        """Return how many sessions are active now."""
        return self._sessions.active(self._clock.wall())

    @property
    def capped(self) -> int:
        """How often a profile or a model was called ``other``, because the names before it reached the bound."""
        return self._profiles.overflowed + self._models.overflowed

    def totals(self) -> Totals:
        """Return what is counted elsewhere than in the instruments."""
        return {
            **by("vllm_observe_dropped_total", "reason", {"sessions_full": self._sessions.overflowed}),
            **by("vllm_observe_unattributed_tokens_total", "kind", self._coverage.unattributed),
        }
