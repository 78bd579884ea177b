"""Whole pages of real vLLMs, as they leave the sidecar.

The golden files show a person what changed. That the pages are right is proved by the client
library's parsers in the tests of the parts; here they only show that both formats say the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.upgrade import Upgrader
from vllm_observe.serve.render import Format, render

CAPTURES = Path(__file__).parents[1] / "data" / "captures"

PAGES = [
    "vllm-0.9.2-v0/saturated",
    "vllm-0.9.2-v1/loaded",
    "vllm-0.16.0-engine-dead/metrics",
    "vllm-0.32.0/saturated",
    "vllm-0.32.0/data-parallel-2",
    "vllm-0.32.0/api-server-count-2",
]


@pytest.mark.parametrize("page", PAGES)
def test_a_real_page_becomes_the_golden_one(page, golden):
    exposition = ExpositionParser().parse((CAPTURES / f"{page}.prom").read_bytes(), None)
    families = Upgrader().upgrade(exposition.families).families
    text, openmetrics = (render(families, fmt).decode() for fmt in Format)

    golden(f"exposition/{page}.om", openmetrics)
    assert described(read_text(text)) == described(read_openmetrics(openmetrics))


def described(families):
    """A page's content without what only one of the formats can say."""
    return [
        (family.name, family.type.replace("untyped", "unknown"), family.documentation.strip(), family.samples)
        for family in families
    ]
