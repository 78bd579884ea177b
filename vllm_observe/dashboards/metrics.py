"""The metrics that a board may name: vLLM's and ours from the tables, and a few that others expose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from vllm_observe.model import Kind
from vllm_observe.signals import BY_KEY, OWN

__all__ = ["FOREIGN", "Metric", "foreign", "own", "vllm"]

# Which variable picks a label's values.
_SERVER = {"job": "job", "instance": "instance"}
_PICKED = ("model_name", "engine", "profile")


@dataclass(frozen=True)
class Metric:
    """A metric as boards see it.

    Attributes:
        name: its family name as exposed, under vLLM's current vocabulary.
        kind: its type.
        scope: for each label that a variable picks, the variable.
        of_server: whether its ``job`` and ``instance`` are those of a vLLM server, which has a class.
    """

    name: str
    kind: Kind
    scope: Mapping[str, str] = field(hash=False)
    of_server: bool = True


def _scope(labels: tuple[str, ...]) -> dict[str, str]:
    return _SERVER | {label: label for label in _PICKED if label in labels}


def vllm(key: str) -> Metric:
    """Return vLLM's signal with our short name for it.

    Raises:
        KeyError: there is none.
    """
    signal = BY_KEY[key]
    return Metric(signal.name, signal.kind, _scope(signal.labels))


_OWN = {metric.name: metric for metric in OWN}


def own(name: str) -> Metric:
    """Return our metric; ``name`` is without its ``vllm_observe_``.

    Raises:
        KeyError: there is none.
    """
    metric = _OWN[f"vllm_observe_{name}"]
    return Metric(metric.name, metric.kind, _scope(metric.labels))


_HOST = {"Hostname": "gpu_host"}

# Prometheus itself, the Python client in vLLM, and NVIDIA's DCGM exporter.
_FOREIGN = (
    Metric("up", Kind.GAUGE, _SERVER),
    Metric("scrape_duration_seconds", Kind.GAUGE, _SERVER),
    Metric("scrape_samples_scraped", Kind.GAUGE, _SERVER),
    Metric("ALERTS", Kind.GAUGE, {}, of_server=False),
    Metric("process_cpu_seconds_total", Kind.COUNTER, _SERVER),
    Metric("process_resident_memory_bytes", Kind.GAUGE, _SERVER),
    Metric("process_start_time_seconds", Kind.GAUGE, _SERVER),
    Metric("DCGM_FI_DEV_FB_FREE", Kind.GAUGE, _HOST, of_server=False),
    Metric("DCGM_FI_DEV_FB_USED", Kind.GAUGE, _HOST, of_server=False),
    Metric("DCGM_FI_DEV_GPU_TEMP", Kind.GAUGE, _HOST, of_server=False),
    Metric("DCGM_FI_DEV_GPU_UTIL", Kind.GAUGE, _HOST, of_server=False),
    Metric("DCGM_FI_DEV_POWER_USAGE", Kind.GAUGE, _HOST, of_server=False),
    Metric("DCGM_FI_DEV_XID_ERRORS", Kind.GAUGE, _HOST, of_server=False),
)

#: What boards show of other programs, by name.
FOREIGN: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _FOREIGN})


def foreign(name: str) -> Metric:
    """Return a metric of another program.

    Raises:
        KeyError: boards show no such metric.
    """
    return FOREIGN[name]
