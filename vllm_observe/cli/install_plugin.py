"""``vllm-observe install-plugin``: put the plugin where a vLLM container's PYTHONPATH finds it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["install_plugin"]


def install_plugin(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder for PYTHONPATH; made if need be.")
    ],
) -> None:
    """Write the plugin for vLLM, with its entry points, into a folder for PYTHONPATH."""
    from vllm_observe.cli.output import write
    from vllm_observe.cli.plugin_folder import write_plugin

    folder = write_plugin(directory)
    write(
        f"the plugin is in {folder}; start vLLM with it:\n"
        f"  PYTHONPATH={shlex.quote(str(folder))} vllm serve MODEL --middleware vllm_observe.plugin.RequestLogMiddleware\n"
    )
