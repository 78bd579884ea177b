"""Service-level targets must be bucket boundaries: between two of them Prometheus only guesses."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_observe.alerts.options import RuleOptions
from vllm_observe.errors import ConfigError
from vllm_observe.model import Family
from vllm_observe.signals import OWN

__all__ = ["VLLM_TTFT", "bounds_of", "check_targets", "first_bound", "known_bounds", "within"]

VLLM_TTFT = "vllm:time_to_first_token_seconds"

#: vLLM's own bounds in seconds since V1, where ``--custom-histogram-buckets`` does not change them.
_VLLM_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)


def known_bounds(histogram: str) -> tuple[float, ...]:
    """Return the bounds in seconds that a time-to-first-token histogram has, ours or vLLM's."""
    return next((metric.buckets for metric in OWN if metric.name == histogram), _VLLM_S)


def first_bound(histogram: str, target: float) -> float:
    """Return the first bound in seconds that a target is within: what is over it missed the target for sure."""
    return next((bound for bound in sorted(known_bounds(histogram)) if bound >= target), target)


def within(bound: float) -> str:
    """Return the matcher of the bucket of a bound in seconds.

    Prometheus 2 keeps a bound as it was exposed, 30 or 30.0; Prometheus 3 writes 30.0.
    """
    return 'le=~"{}([.]0)?"'.format(f"{bound:g}".replace(".", "[.]"))


def bounds_of(histogram: str, families: Iterable[Family]) -> tuple[float, ...]:
    """Return the bounds in seconds of a histogram on a page, without the infinite one.

    Raises:
        ConfigError: it is not there.
    """
    found = {
        float(value)
        for family in families
        if family.name == histogram
        for sample in family.samples
        for name, value in sample.series.labels
        if name == "le"
    }
    bounds = tuple(sorted(bound for bound in found if bound != float("inf")))
    if not bounds:
        raise ConfigError(
            f"--vllm-url: the page there has no {histogram}, which the rules ask for: name the sidecar, or for rules "
            "on vLLM's own page add --max-num-seqs N and --selector"
        )
    return bounds


def check_targets(options: RuleOptions, bounds: Iterable[float]) -> None:
    """Refuse targets that cannot be measured.

    Args:
        options: hold the targets.
        bounds: of the histogram that measures them, in seconds.

    Raises:
        ConfigError: a target is no bound; the nearest ones are named.
    """
    known = sorted(bounds)
    for service_class in options.classes:
        target = options.targets[service_class].ttft
        if target in known:
            continue
        near = (
            max((b for b in known if b < target), default=None),
            min((b for b in known if b > target), default=None),
        )
        named = " and ".join(f"{bound:g}" for bound in near if bound is not None)
        raise ConfigError(
            f"target_ttft of {target:g} s ({service_class.value}) is no bucket of {options.ttft_histogram}, so "
            f"nothing can count the requests within it: the nearest are {named}"
        )
