"""A core for vLLM and the others for all that watches it, where there are several.

vLLM's processes wait for one another by yielding their core in a loop. On Linux 6.18 that was seen to keep whatever
shares the core with them from running for a second and more at a time: Prometheus misses its scrapes, and a crowd of
requests that was sent at once arrives one by one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["VLLM", "WATCHERS", "kept_to"]

# macOS has no such call, and its processes go where they like.
_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

#: Cores by number; the same for both where there is only one. vLLM has one wherever it runs, so that its pace
#: depends little on the machine.
VLLM, WATCHERS = frozenset(_CORES[:1]), frozenset(_CORES[1:] or _CORES)


@contextlib.contextmanager
def kept_to(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and all threads and programs that it starts meanwhile, to some cores."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
