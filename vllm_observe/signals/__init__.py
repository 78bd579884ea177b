"""Every metric name, vLLM's and ours: the table that scraper, boards, alerts and documents read.

vLLM's current names are the vocabulary. What an older release, Ray or KServe calls otherwise is
put into today's words here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from vllm_observe.signals.own import OWN
from vllm_observe.signals.rows import Combine, Former, OwnMetric, Signal
from vllm_observe.signals.vllm import NEWEST, OLDEST, SIGNALS

__all__ = [
    "BY_KEY",
    "NEWEST",
    "OLDEST",
    "OWN",
    "PREFIXES",
    "SIGNALS",
    "Combine",
    "Former",
    "OwnMetric",
    "Signal",
    "canonical_name",
    "resolve",
    "signal",
]

#: Each signal by our short name for it.
BY_KEY: Mapping[str, Signal] = MappingProxyType({signal.key: signal for signal in SIGNALS})

_VLLM = "vllm:"
_WRAPPERS = ("vllm", "ray_vllm", "kserve_vllm", "vllm_omni")
#: What vLLM's own names and its wrappers' begin with, in the order in which they are believed. The
#: underscores come from Ray, and from Prometheus clients that rewrite colons for an old server.
PREFIXES: tuple[str, ...] = tuple(wrapper + mark for mark in ":_" for wrapper in _WRAPPERS)


def _spellings(name: str) -> tuple[str, ...]:
    """All the ways to write a name; one that is not vLLM's own, such as an http_ one, has one."""
    if not name.startswith(_VLLM):
        return (name,)
    return tuple(prefix + name.removeprefix(_VLLM) for prefix in PREFIXES)


_BY_NAME = {signal.name: signal for signal in SIGNALS}
# Every spelling of every name with the signal that it means, and how late in line it is believed.
_SPELLED = {
    spelling: (signal, place)
    for signal in SIGNALS
    for place, spelling in enumerate(spelling for name in signal.names for spelling in _spellings(name))
}


def canonical_name(exposed: str) -> str:
    """Today's name of an exposed family; the name itself where it is not vLLM's.

    A family is vLLM's if the table knows it, or if a wrapper's prefix ends in a colon. An
    underscore alone proves nothing: ``vllm_router_requests_total`` is somebody else's.
    """
    known = _SPELLED.get(exposed)
    if known is not None:
        return known[0].name
    prefix, colon, rest = exposed.partition(":")
    return _VLLM + rest if colon and prefix in _WRAPPERS else exposed


def signal(name: str) -> Signal | None:
    """Return the signal with this canonical name."""
    return _BY_NAME.get(name)


def resolve(exposed: Collection[str]) -> dict[str, str]:
    """For each signal's key the exposed family name that serves it.

    Where several do, today's name comes before a former one, and vLLM's own prefix before a
    wrapper's: they are the same numbers twice, to be read once and never added.
    """
    best: dict[str, tuple[int, str]] = {}
    for name in exposed:
        known = _SPELLED.get(name)
        if known is not None:
            key, candidate = known[0].key, (known[1], name)
            best[key] = min(best.get(key, candidate), candidate)
    return {key: name for key, (_, name) in best.items()}
