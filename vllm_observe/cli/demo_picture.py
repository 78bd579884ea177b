"""What the demo shows, asked of the sidecar and of Alertmanager, as a person on call would ask them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vllm_observe.cli.asking import RequestSource, SidecarAccess, SidecarRequests
from vllm_observe.cli.sources import SidecarOptions, SidecarSource, Source
from vllm_observe.clock import Clock
from vllm_observe.demo.alerting import Firing
from vllm_observe.demo.run import Demo
from vllm_observe.demo.story import Story
from vllm_observe.errors import ScrapeError, VllmObserveError
from vllm_observe.model import Cause
from vllm_observe.serve.api.answers import RequestObject
from vllm_observe.serve.state import State
from vllm_observe.serve.verdict import Level, Verdict, verdict

__all__ = ["Hit", "Picture", "Watcher"]

#: Looks from which a server does not serve, and looks in a row from which one is busy: a request that has
#: just come waits for a moment on any server.
_FAILS, _LASTS = 3, 4
#: Requests that are asked for, of each cause and of all.
_NEWEST = 200
#: Requests from which on most of them being of one session is no chance.
_ENOUGH = 4


class Hit(NamedTuple):
    """A session, how many of its requests were slow or failed, and how long the longest of them took."""

    session_id: str
    requests: int
    longest_s: float


@dataclass(frozen=True, kw_only=True)
class Picture:
    """What is known at a moment.

    Attributes:
        now: seconds since the story began.
        state: what the sidecar sees; ``None`` where it does not answer.
        judged: what that comes to.
        at_worst: what it came to most of the time since the trouble began, at its worst; ``None`` where
            all was well.
        slow: the newest slow and failed requests of each cause, since the trouble began.
        lately: the requests that ended last, whatever their cause.
        firing: the alerts that fire, and ``fired`` all that did.
    """

    now: float
    state: State | None
    judged: Verdict
    at_worst: Verdict | None = None
    slow: tuple[RequestObject, ...] = ()
    lately: tuple[RequestObject, ...] = ()
    firing: tuple[Firing, ...] = ()
    fired: Mapping[str, str] = field(default_factory=dict)

    @property
    def causes(self) -> Counter[Cause]:
        """How many requests were slow or failed for which cause, since the sidecar's start."""
        requests = None if self.state is None else self.state.requests
        counts = {} if requests is None else requests.slow
        return +Counter({Cause(name): count for name, count in counts.items()})

    @property
    def main_cause(self) -> Cause | None:
        """The cause of most of what was slow or failed since the trouble began."""
        found = Counter(request.cause for request in self.slow).most_common(1)
        return found[0][0] if found else None

    @property
    def mainly(self) -> tuple[RequestObject, ...]:
        """The requests with that cause."""
        return tuple(request for request in self.slow if request.cause is self.main_cause)

    @property
    def example(self) -> RequestObject | None:
        """One of them, to look at: the longest."""
        return max(self.mainly, key=lambda request: request.duration_s or 0.0, default=None)

    @property
    def worst_hit(self) -> list[Hit]:
        """The sessions with the most slow or failed requests, the most first."""
        hits: dict[str, Hit] = {}
        for request in self.slow:
            if request.session_id is not None:
                _, count, longest = hits.get(request.session_id, Hit("", 0, 0.0))
                took = max(longest, request.duration_s or 0.0)
                hits[request.session_id] = Hit(request.session_id, count + 1, took)
        return sorted(hits.values(), key=lambda hit: (-hit.requests, -hit.longest_s, hit.session_id))

    @property
    def main_session(self) -> tuple[str, int] | None:
        """The session of most of the requests with the main cause, and how many of them are its own."""
        found = Counter(request.session_id for request in self.mainly).most_common(1)
        session, count = found[0] if found else (None, 0)
        return (session, count) if session and _is_most(count / len(self.mainly), self.mainly) else None

    @property
    def holders(self) -> list[tuple[str, float]]:
        """The clients by their share of the engine's time, the greatest first."""
        return [(client or "of no client", share) for client, share in self._held(lambda it: it.client)]

    @property
    def main_holder(self) -> tuple[str, float] | None:
        """The session that has most of the engine's time, and its share of it."""
        session, share = next(iter(self._held(lambda it: it.session_id)), (None, 0.0))
        return (session, share) if session and _is_most(share, self.lately) else None

    def _held(self, whose: Callable[[RequestObject], str | None]) -> list[tuple[str | None, float]]:
        """Share out the engine's time, the greatest share first."""
        seconds: dict[str | None, float] = defaultdict(float)
        for request in self.lately:
            phases = request.phases
            seconds[whose(request)] += (phases.prefill or 0.0) + (phases.decode or 0.0)
        whole = sum(seconds.values())
        shares = ((name, held / whole) for name, held in seconds.items() if held)
        return sorted(shares, key=lambda share: -share[1])


def _is_most(share: float, of: Sequence[RequestObject]) -> bool:
    """Say whether a share of requests is over half of them, and they are not so few that this says nothing."""
    return len(of) >= _ENOUGH and share > 1 / 2


class Watcher:
    """Looks again and again, and remembers the worst.

    Args:
        demo: what is looked at.
        clock: tells the time of day.
    """

    def __init__(self, demo: Demo, clock: Clock) -> None:
        self._demo = demo
        self._clock = clock
        self._source: Source = SidecarSource(SidecarOptions(demo.admin), clock=clock)
        self._asked: RequestSource = SidecarRequests(SidecarAccess(demo.admin), clock)
        story = demo.watched if isinstance(demo.watched, Story) else None
        self._trouble_at = story.begins if story is not None else 0.0
        self._troubles = _Troubles()
        self._fired: dict[str, str] = {}

    def look(self) -> Picture:
        """Look once."""
        now = self._demo.now
        try:
            state = self._source.look()
        except ScrapeError as error:
            return Picture(
                now=now,
                state=None,
                judged=Verdict(Level.PROBLEM, str(error)),
                at_worst=self._troubles.main,
                fired=dict(self._fired),
            )
        judged, firing = verdict(state), self._demo.firing()
        in_trouble = now >= self._trouble_at
        if in_trouble:
            self._troubles.add(state, judged)
        self._fired |= {alert.name: alert.severity for alert in firing if not alert.muted}
        return Picture(
            now=now,
            state=state,
            judged=judged,
            at_worst=self._troubles.main,
            slow=tuple(self._slow(state, now)) if in_trouble else (),
            lately=tuple(self._requests({})) if state.requests is not None else (),
            firing=firing,
            fired=dict(self._fired),
        )

    def _slow(self, state: State, now: float) -> Iterator[RequestObject]:
        since = self._clock.wall() - (now - self._trouble_at)
        for cause, count in {} if state.requests is None else state.requests.slow.items():
            if count:
                yield from self._requests({"cause": cause, "since": f"{since:.3f}"})

    def _requests(self, parameters: Mapping[str, str]) -> Iterable[RequestObject]:
        try:
            return self._asked.list_requests({**parameters, "limit": str(_NEWEST)}).requests
        except VllmObserveError:  # it has only just started, or has much to do: the next look will tell
            return ()


class _Troubles:
    """The troubles that were seen, by the word that their verdict begins with."""

    def __init__(self) -> None:
        self._looks: Counter[str] = Counter()
        self._worst: dict[str, tuple[float, Verdict]] = {}
        self._lasted: set[str] = set()
        self._last, self._in_a_row = "", 0

    def add(self, state: State, judged: Verdict) -> None:
        """Take note of a look."""
        kind = judged.text.partition(":")[0]
        self._in_a_row = self._in_a_row + 1 if kind == self._last else 1
        self._last = kind
        if judged.level is Level.WELL:
            return
        self._looks[kind] += 1
        fails = judged.level is Level.PROBLEM and self._looks[kind] >= _FAILS
        if fails or self._in_a_row >= _LASTS:
            self._lasted.add(kind)
        waiting = sum(engine.waiting or 0.0 for engine in state.engines)
        if kind not in self._worst or waiting >= self._worst[kind][0]:
            self._worst[kind] = waiting, judged

    @property
    def main(self) -> Verdict | None:
        """The one that was seen most often, when most requests waited; ``None`` where none lasted."""
        kinds = (kind for kind, _ in self._looks.most_common() if kind in self._lasted)
        return next((self._worst[kind][1] for kind in kinds), None)
