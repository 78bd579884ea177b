"""How each kind of panel is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vllm_observe.preview.board import Panel
from vllm_observe.preview.canvas import Canvas
from vllm_observe.preview.kinds.bar_gauge import draw_bar_gauge
from vllm_observe.preview.kinds.heatmap import draw_heatmap
from vllm_observe.preview.kinds.stat import draw_stat
from vllm_observe.preview.kinds.state_timeline import draw_state_timeline
from vllm_observe.preview.kinds.table import draw_table
from vllm_observe.preview.kinds.text import draw_text
from vllm_observe.preview.kinds.time_series import draw_time_series
from vllm_observe.preview.series import Found

__all__ = ["KINDS", "SILENT"]

#: Each kind that can be drawn, by Grafana's name of it.
KINDS: Mapping[str, Callable[[Panel, Found, Canvas], None]] = MappingProxyType(
    {
        "bargauge": draw_bar_gauge,
        "gauge": draw_stat,
        "heatmap": draw_heatmap,
        "stat": draw_stat,
        "state-timeline": draw_state_timeline,
        "table": draw_table,
        "text": draw_text,
        "timeseries": draw_time_series,
    }
)
#: Those that ask nothing.
SILENT = frozenset({"text"})
