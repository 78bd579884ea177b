"""The plugin's voice: vLLM's own log."""

from __future__ import annotations

import logging

__all__ = ["logger"]

#: Below vLLM's logger, so that a line comes in vLLM's form; where that is not set up, warnings still show.
logger = logging.getLogger("vllm.plugins.observe")
