"""What can be picked at the top of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DATASOURCE", "SIDECAR", "VARIABLES", "Variable"]

DATASOURCE = "datasource"
#: Where a person's browser finds the sidecar's admin API; Grafana cannot know.
SIDECAR = "sidecar"

# A model or a stopped engine may have no series left in a range; a sidecar's own series stay.
_SERVERS = '{__name__=~"vllm:num_requests_running|vllm_observe_build_info"}'
_RUNNING = 'vllm:num_requests_running{job=~"$job"'


@dataclass(frozen=True)
class Variable:
    """A label's values to pick from, several at a time or all.

    Attributes:
        label: its name for people.
        query: how Prometheus is asked for the values.
        everything: the regular expression that All stands for; empty, it is all the values that are listed.
        help: what picking does.
        own: whether it picks among what the sidecar tells.
    """

    label: str
    query: str
    everything: str
    help: str
    own: bool = False


#: Each variable by its name. ``.+`` wants the label to be there: a router that shows its engines' metrics
#: under vLLM's names, without a model_name, is not counted beside them.
VARIABLES: Mapping[str, Variable] = MappingProxyType(
    {
        "job": Variable(
            "Job", f"label_values({_SERVERS}, job)", "", "Prometheus's scrape jobs that know a vLLM."
        ),
        "model_name": Variable(
            "Model",
            f"label_values({_RUNNING}}}, model_name)",
            ".+",
            "The name under which a model is served.",
        ),
        "instance": Variable(
            "Instance",
            f'label_values({_RUNNING},model_name=~"$model_name"}}, instance)',
            ".+",
            "The address that Prometheus scrapes: a sidecar, or a vLLM itself.",
        ),
        "engine": Variable(
            "Engine",
            f'label_values({_RUNNING},model_name=~"$model_name",instance=~"$instance"}}, engine)',
            ".*",
            "The data-parallel rank within an instance.",
        ),
        "service_class": Variable(
            "Service class",
            'label_values(vllm_observe_target_info{job=~"$job"}, service_class)',
            ".*",
            "Whose latency targets apply. Instances without a sidecar belong to none and are always shown.",
            own=True,
        ),
        "profile": Variable(
            "Profile",
            'label_values(vllm_observe_requests_total{job=~"$job",model_name=~"$model_name"}, profile)',
            ".*",
            "The app's use of the model, as the request log tells it.",
            own=True,
        ),
        "gpu_host": Variable(
            "GPU host",
            "label_values(DCGM_FI_DEV_GPU_UTIL, Hostname)",
            ".*",
            "The host whose GPUs are shown; DCGM's exporter does not know vLLM's instances.",
        ),
    }
)
