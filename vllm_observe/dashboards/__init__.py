"""Grafana boards as code: rendered into dashboards/."""

from vllm_observe.dashboards.boards import BOARDS
from vllm_observe.dashboards.options import Options
from vllm_observe.dashboards.render import config_maps, files, render

__all__ = ["BOARDS", "Options", "config_maps", "files", "render"]
