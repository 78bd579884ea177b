"""The fuse: a fault in the plugin ends the plugin, and nothing else."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from vllm_observe.plugin.say import logger

__all__ = ["Fuse"]

_R = TypeVar("_R")


class Fuse:
    """Runs the plugin's own code for the requests' and the engine's sake: no error of ours gets out.

    Attributes:
        blown: whether there was one. The plugin then does nothing more in this process.
    """

    def __init__(self) -> None:
        self.blown = False

    def run(self, work: Callable[..., _R], *arguments: object) -> _R | None:
        """Answer what ``work`` does, or ``None`` where it failed, now or before."""
        if self.blown:
            return None
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001  # whatever it is, it must not reach a request
            # An error's text may quote a request; its type and its place tell enough.
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.blow(f"{type(error).__name__} at {place.filename}:{place.lineno}")
            return None

    def blow(self, why: str) -> None:
        """End the plugin's work in this process, with one warning."""
        if not self.blown:
            self.blown = True
            logger.warning("vllm-observe writes no more request records: %s", why)
