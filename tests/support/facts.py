"""What each release of vLLM exposes, as read from its code: tests/data/vllm-metrics.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from vllm_observe.signals import canonical_name

__all__ = ["RELEASES", "rows", "signals_of"]

_FACTS = json.loads((Path(__file__).parents[1] / "data" / "vllm-metrics.json").read_text(encoding="utf-8"))

#: Every release, the oldest first.
RELEASES: list[str] = _FACTS["releases"]
_AGE = {release: age for age, release in enumerate(RELEASES)}


def rows(release: str, *engines: str) -> list[Mapping[str, Any]]:
    """The families that a release exposes with all options set; only those of some engines, if given."""
    return [
        row
        for row in _FACTS["rows"]
        if _AGE[row["first"]] <= _AGE[release] <= _AGE[row["last"]]
        and (not engines or row["engine"] in {*engines, "any"})
    ]


@cache
def signals_of(release: str, engine: str) -> frozenset[str]:
    """The signals that a release's engine tells, by today's names, but for those that it hides."""
    return frozenset(canonical_name(row["family"]) for row in rows(release, engine) if not row.get("hidden"))
