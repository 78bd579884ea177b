"""GPUs, as DCGM's exporter tells of them."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_observe import thresholds
from vllm_observe.alerts.proofs.course import Page, gauge
from vllm_observe.alerts.proofs.page import from_instance, vllm
from vllm_observe.alerts.proofs.proof import Check, Proof, Scene, critical, over, under, warning

__all__ = ["GPU", "GPU_EDGES"]


def _dcgm(name: str, gpu: int = 0) -> str:
    return f'DCGM_FI_DEV_{name}{{job="dcgm",instance="n1:9400",Hostname="n1",gpu="{gpu}"}}'


def _used(share: float) -> Page:
    return {_dcgm("GPU_UTIL"): gauge(100 * share), vllm("num_requests_waiting"): gauge(1)}


GPU = (
    Proof(
        rule=critical("VLLMGPUXidError"),
        onset=600,
        fires={_dcgm("XID_ERRORS"): gauge(0, (600, 79))},
        quiet={_dcgm("XID_ERRORS"): gauge(79)},  # an error of days ago
    ),
    Proof(
        rule=warning("VLLMGPUHot"),
        fires={_dcgm("GPU_TEMP"): gauge(over(thresholds.GPU_HOT_CELSIUS))},
        quiet={_dcgm("GPU_TEMP"): gauge(under(thresholds.GPU_HOT_CELSIUS))},
    ),
    Proof(
        rule=critical("VLLMGPULost"),
        onset=600,
        fires={_dcgm("GPU_TEMP"): gauge(40), _dcgm("GPU_TEMP", 1): gauge(40, (600, None))},
        quiet={_dcgm("GPU_TEMP"): gauge(40), _dcgm("GPU_TEMP", 1): gauge(40)},
    ),
    Proof(
        rule=warning("VLLMGPUUnderusedWhileQueueing"),
        fires=_used(under(thresholds.GPU_IDLE)),
        quiet=_used(over(thresholds.GPU_IDLE)),
        guarded={"while nobody waits": {vllm("num_requests_waiting"): gauge(0)}},
    ),
)

_IDLE = warning("VLLMGPUUnderusedWhileQueueing")


def _of_pods(used: Mapping[str, float], waiting: str, *, label: str = "pod") -> Page:
    """GPUs of one node, in percent by the pod that has each, and the pod whose requests wait."""
    others = 'pod="dcgm-x",namespace="gpu",' if label == "exported_pod" else ""
    where = "exported_namespace" if label == "exported_pod" else "namespace"
    return {
        **{
            _dcgm("GPU_UTIL", number).replace("{", f'{{{others}{where}="ml",{label}="{pod}",'): gauge(percent)
            for number, (pod, percent) in enumerate(used.items())
        },
        vllm("num_requests_waiting", f'namespace="ml",pod="{waiting}"'): gauge(5),
    }


def _of_nodes(used: Mapping[str, float], waiting: str) -> Page:
    """A GPU of each node, in percent, and the server whose requests wait."""
    return {
        **{_dcgm("GPU_UTIL").replace('"n1', f'"{node}'): gauge(percent) for node, percent in used.items()},
        **from_instance({vllm("num_requests_waiting"): gauge(5)}, waiting),
    }


_LOST = critical("VLLMGPULost")
_ANSWERS = 'up{job="dcgm",instance="n1:9400"}'
_ONLY_GPU = {_dcgm("GPU_TEMP"): gauge(40, (600, None))}

GPU_EDGES = (
    *(
        Scene(
            f"GPUs by pod ({label}): {says}",
            _of_pods(used, "a", label=label),
            (Check(900, firing, only=_IDLE),),
        )
        for label in ("pod", "exported_pod")
        for says, used, firing in (
            ("one starves with requests waiting, others are busy", {"a": 2, "b": 98, "c": 98}, (_IDLE,)),
            ("one is busy with requests waiting, others idle", {"a": 98, "b": 2, "c": 2}, ()),
        )
    ),
    *(
        Scene(f"GPUs by node: {says}", _of_nodes(used, waiting), (Check(900, firing, only=_IDLE),))
        for says, used, waiting, firing in (
            ("one starves with requests waiting", {"h0": 2, "h1": 98, "h2": 98}, "h0:8000", (_IDLE,)),
            ("one is busy with requests waiting", {"h0": 100, "h1": 0, "h2": 0}, "h0:8000", ()),
            ("nobody knows whose they are, and one is busy", {"h0": 2, "h1": 98}, "10.0.0.7:8000", ()),
            ("nobody knows whose they are, and all idle", {"h0": 2, "h1": 3}, "10.0.0.7:8000", (_IDLE,)),
        )
    ),
    Scene(
        "a node's only GPU falls off the bus: its exporter answers and has no GPU",
        {**_ONLY_GPU, _ANSWERS: gauge(1)},
        (Check(600), Check(840), Check(900, (_LOST,)), Check(2100, (_LOST,))),
    ),
    Scene(
        "a node with one GPU is down: its exporter does not answer",
        {**_ONLY_GPU, _ANSWERS: gauge(1, (600, 0))},
        (Check(2100, (), only=_LOST),),
    ),
    Scene(
        "a node with one GPU is taken away, and its exporter with it",
        {**_ONLY_GPU, _ANSWERS: gauge(1, (600, None))},
        (Check(2100, (), only=_LOST),),
    ),
)
