"""One instance in depth: which limit holds its engines back, and what they do with their time."""

from __future__ import annotations

from vllm_observe.dashboards.boards.common import ALL
from vllm_observe.dashboards.boards.engine_features import FEATURES
from vllm_observe.dashboards.boards.engine_host import GPU, HOST
from vllm_observe.dashboards.boards.engine_load import CACHES, LIMITS, STATE
from vllm_observe.dashboards.boards.engine_work import LATENCY, WORK
from vllm_observe.dashboards.panels import Board

__all__ = ["ENGINE_BOARD"]

ENGINE_BOARD = Board(
    name="engine",
    title="vLLM engine",
    summary="One instance in depth: which limit holds its engines back, and what they do with their time.",
    rows=(STATE, LIMITS, CACHES, WORK, LATENCY, HOST, *FEATURES, GPU),
    variables=(*ALL, "gpu_host"),
)
