"""The boards, one module each, in the order in which people open them."""

from vllm_observe.dashboards.boards.engine import ENGINE_BOARD
from vllm_observe.dashboards.boards.overview import OVERVIEW
from vllm_observe.dashboards.boards.requests import REQUESTS
from vllm_observe.dashboards.boards.rollout import ROLLOUT
from vllm_observe.dashboards.boards.service_levels import SERVICE_LEVELS
from vllm_observe.dashboards.boards.sidecar import SIDECAR

__all__ = ["BOARDS"]

BOARDS = (OVERVIEW, ENGINE_BOARD, REQUESTS, SERVICE_LEVELS, ROLLOUT, SIDECAR)
