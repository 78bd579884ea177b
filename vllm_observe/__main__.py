"""``python -m vllm_observe``: the command line, where no console script is at hand."""

from __future__ import annotations

from vllm_observe.cli import main

main()
