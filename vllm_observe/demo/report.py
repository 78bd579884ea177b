"""What the demo says: read from the sidecar's own page, and from nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import requests

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.errors import ScrapeError
from vllm_observe.model import BindingLimit, Cause, EngineKey, EngineSample, Family, Sample

__all__ = ["Page", "PageReader"]

_ACCEPT = "application/openmetrics-text; version=1.0.0"
_TIMEOUT_S = 2.0
#: What happened to requests with this cause; the sentence begins with how many they were.
_WHAT_HAPPENED = {
    Cause.CLIENT_DISCONNECTED: "were given up by their client",
    Cause.REJECTED: "were refused before they were served",
    Cause.CLIENT_ERROR: "asked for something wrong",
    Cause.SERVER_ERROR: "met an error of the server",
    Cause.ENGINE_ERROR: "met an error of the engine",
    Cause.QUEUE_SLOTS: "waited while every slot was taken",
    Cause.QUEUE_KV: "waited while the KV cache was full",
    Cause.PREEMPTED: "lost their KV blocks to others",
    Cause.PREFILL_LONG: "brought a long prompt that no cache held",
    Cause.DECODE_LONG: "took many output tokens at a normal rate",
    Cause.DECODE_SLOW: "took long for each output token",
    Cause.OUTSIDE_ENGINE: "were held up outside the engine",
    Cause.UNKNOWN: "were slow for a reason that is not known",
}


class Page:
    """One page of a sidecar.

    Attributes:
        engines: the engines' state, where the sidecar knows it.
    """

    def __init__(self, families: Iterable[Family]) -> None:
        families = list(families)
        self._families = {family.name: family.samples for family in families}
        self.engines = engine_samples(families, at=0.0)

    @property
    def now(self) -> str:
        """The engines against their limits, and the slow requests by cause, in a line."""
        parts = list(map(self._engine, self.engines)) or [f"no engine state{self._failures}"]
        if self._requests:
            parts.append(self._slow)
        return "; ".join(parts)

    @property
    def summary(self) -> Iterator[str]:
        """What happened since the sidecar's start, in a few lines."""
        if not self._requests:
            yield "no request has ended yet"
            return
        yield f"requests {_listed(self._requests)}"
        yield self._slow
        if self._causes:
            yield self._whose_and_why(*self._causes.most_common(1)[0])
        yield from self._one_to_look_at()

    @property
    def _requests(self) -> Counter[str]:
        return self._sums("vllm_observe_requests_total", "outcome")

    @property
    def _causes(self) -> Counter[str]:
        return self._sums("vllm_observe_slow_requests_total", "cause")

    @property
    def _slow(self) -> str:
        return f"slow or failed {_listed(self._causes)}"

    @property
    def _failures(self) -> str:
        reasons = self._sums("vllm_observe_scrape_failures_total", "reason")
        return f": failed scrapes {_listed(reasons)}" if reasons else " yet"

    def _whose_and_why(self, cause: str, count: int) -> str:
        profiles = self._sums("vllm_observe_slow_requests_total", "profile", cause=cause)
        listed = ", ".join(
            f"{number} {profile or 'of no profile'}" for profile, number in profiles.most_common(5)
        )
        what = _WHAT_HAPPENED[Cause(cause)]
        return f"whose and why: {count} requests ({listed}) {what} ({cause})"

    def _one_to_look_at(self) -> Iterator[str]:
        """Name the request with the longest wait among the page's exemplars, if it has any."""
        named = [
            exemplar
            for sample in self._of("vllm_observe_request_ttft_seconds")
            if (exemplar := sample.exemplar) is not None and exemplar.labels
        ]
        if named:
            longest = max(named, key=lambda exemplar: exemplar.value)
            who = " of session ".join(_plain(value) for _, value in longest.labels)
            yield f"one to look at: {who}, whose first token took {longest.value:.1f} s"

    def _engine(self, engine: EngineSample) -> str:
        slots = self._value("vllm_observe_max_num_seqs", engine.key)
        limits = self._sums("vllm_observe_binding_limit", "limit", **engine.key._asdict())
        bound = [limit for limit in limits if limit != BindingLimit.NONE.value]
        kv_usage = None if engine.kv_usage is None else round(engine.kv_usage * 100)
        parts = [
            f"running {_count(engine.running)}/{_count(slots)}",
            *(f"bound by {limit}" for limit in bound),
            f"{_count(engine.waiting)} waiting",
            f"KV {_count(kv_usage)} %",
        ]
        name = f"engine {_plain(engine.key.engine)}: " if len(self.engines) > 1 else ""
        return name + ", ".join(parts)

    def _value(self, name: str, key: EngineKey) -> float | None:
        return next((sample.value for sample in self._of(name, **key._asdict())), None)

    def _of(self, name: str, **labels: str) -> Iterator[Sample]:
        for sample in self._families.get(name, ()):
            if labels.items() <= dict(sample.series.labels).items():
                yield sample

    def _sums(self, name: str, label: str, **labels: str) -> Counter[str]:
        """Add the samples up by one label, those that come to nothing left out."""
        sums: Counter[str] = Counter()
        for sample in self._of(name, **labels):
            sums[_plain(sample.series.label(label) or "")] += int(sample.value)
        return +sums


class PageReader:
    """Reads a sidecar's pages, one after the other.

    Args:
        url: the page's address.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy stands between us and our own child
        self._parser = ExpositionParser()

    def read(self) -> Page | None:
        """Read the page; ``None`` where the sidecar does not answer, for now."""
        try:
            answer = self._session.get(self._url, headers={"Accept": _ACCEPT}, timeout=_TIMEOUT_S)
            page = self._parser.parse(answer.content, answer.headers.get("Content-Type"))
        except (requests.RequestException, ScrapeError):
            return None
        return Page(page.families)


def _listed(counts: Counter[str]) -> str:
    """Write a sum and what it is made of: ``41: 39 ok, 2 error``."""
    parts = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return f"{counts.total()}: {parts}" if parts else "0"


def _count(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"


def _plain(text: str) -> str:
    """Leave out of a foreign name what could move a terminal's cursor, and its length."""
    return "".join(character for character in text if character.isprintable())[:40]
