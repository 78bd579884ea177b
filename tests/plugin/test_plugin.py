"""What holds for the plugin as a whole: it runs in any vLLM's Python, on its own."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from vllm_observe.cli.plugin_folder import ENTRY_POINTS

ROOT = Path(__file__).resolve().parents[2]


def test_the_middleware_needs_the_standard_library_alone():
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import vllm_observe.plugin;"
        "print(*(name for name in sys.modules if name.startswith('vllm_observe')))"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert [name for name in loaded if not name.startswith("vllm_observe.plugin")] == ["vllm_observe"]
    assert "vllm_observe.plugin.stat_logger" not in loaded  # for vLLM before 0.11.1


def test_the_entry_point_is_the_same_however_the_plugin_was_installed():
    (point,) = metadata.entry_points(group="vllm.stat_logger_plugins", name="vllm_observe")
    assert f"[{point.group}]\n{point.name} = {point.value}\n" == ENTRY_POINTS
