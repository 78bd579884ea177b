"""GPUs through DCGM's exporter; without one the group selects nothing and costs nothing."""

from __future__ import annotations

from vllm_observe import thresholds
from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.promql import SERVER, Scope
from vllm_observe.alerts.rule import Alert, Board, Group, Severity

__all__ = ["gpu"]

#: DCGM's exporter runs once a node and names it; the job and the instance are its own.
_GPU = "cluster, Hostname, gpu"
_NODE = "cluster, Hostname"


def gpu(options: RuleOptions) -> Group:
    """Return the rules about GPUs. Another job scrapes them: they have a scope of their own."""
    gpus = options.gpu_scope
    temperature = gpus("DCGM_FI_DEV_GPU_TEMP")
    before, answering = f"max_over_time({temperature}[1h])", Scope()("up")
    return Group(
        "gpu",
        (
            Alert(
                name="VLLMGPUXidError",
                # The gauge holds the last error's number for good: only its change is an event.
                expr=f"max by ({_GPU}) ({gpus('DCGM_FI_DEV_XID_ERRORS')}) > 0\n"
                f"and on ({_GPU}) max by ({_GPU}) (changes({gpus('DCGM_FI_DEV_XID_ERRORS')}[10m])) > 0",
                hold=0,
                severity=Severity.CRITICAL,
                summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }}: XID {count}",
                description="The driver reports an error. First look the number up; 48, 63, 74, 79 and 94 ask "
                "for the GPU to be taken out of service.",
                board=Board.ENGINE,
                keep_firing=900,
            ),
            Alert(
                name="VLLMGPUHot",
                expr=f"max by ({_GPU}) ({temperature}) > {thresholds.GPU_HOT_CELSIUS:g}",
                hold=300,
                severity=Severity.WARNING,
                summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }}: {number} °C",
                description="It lowers its clocks, and every token takes longer. First see the fans and the "
                "room, then the power limit.",
                board=Board.ENGINE,
                keep_firing=300,
            ),
            Alert(
                name="VLLMGPULost",
                # The last GPU of a node leaves nothing to count, and that is 0 where the exporter answers.
                expr=f"{_gpus(before)}\n> ({_gpus(temperature)}\n"
                f"or 0 * {_gpus(f'{before} and on ({SERVER}) {answering} == 1')})",
                hold=300,
                severity=Severity.CRITICAL,
                summary="{{ $labels.Hostname }}: a GPU is gone",
                description="Fewer GPUs report than an hour ago. First see nvidia-smi and the kernel's log for "
                "'fallen off the bus'.",
                board=Board.ENGINE,
            ),
            Alert(
                name="VLLMGPUUnderusedWhileQueueing",
                expr=f"min by (cluster) ({_used_by_servers_that_wait(options)}) < {100 * thresholds.GPU_IDLE:g}",
                hold=600,
                severity=Severity.WARNING,
                summary="Requests wait while GPUs of their server are used {number} % at most",
                description="A limit is wrong, or the engine is starved by its host. First see the binding "
                "limit; then the CPU: tokenisation, one slow API process, too few cores.",
                board=Board.ENGINE,
                keep_firing=300,
            ),
        ),
    )


def _used_by_servers_that_wait(options: RuleOptions) -> str:
    """How much the GPUs are used, in percent, of each server whose requests wait; of several the busiest.

    A GPU is a server's where both name one pod, or where the server's address names the GPU's node, so that it
    is one of that node's. Where neither is so it may be anybody's in the cluster: then all of them must idle.
    """
    used = f"avg_over_time({options.gpu_scope('DCGM_FI_DEV_GPU_UTIL')}[5m])"
    queue, in_a_pod = "vllm:num_requests_waiting", 'pod!=""'
    waiting, of_pods = (
        f"min_over_time({selected}[5m])"
        for selected in (options.scope(queue), options.scope(queue, in_a_pod))
    )
    # The exporter's own pod and namespace may stand in these labels, and then the user's beside them.
    in_pod = _copied(_copied(used, "pod", "exported_pod"), "namespace", "exported_namespace")
    on_node = f'label_replace({waiting}, "Hostname", "$1", "instance", "(.+):[0-9]+")'
    ties = (
        ("cluster, namespace, pod", in_pod, of_pods),
        (_NODE, used, on_node),
        ("cluster", used, waiting),
    )
    return "\nor ".join(
        f"max by ({labels}) ({gpus}) and on ({labels}) sum by ({labels}) ({waits}) > 0"
        for labels, gpus, waits in ties
    )


def _copied(series: str, label: str, other: str) -> str:
    return f'label_replace({series}, "{label}", "$1", "{other}", "(.+)")'


def _gpus(temperatures: str) -> str:
    """How many GPUs a node has, each once: with every pod that uses one its series changes."""
    return f"count by ({_NODE}) (max by ({_GPU}) ({temperatures}))"
