"""docs/causes.md says of every cause what it means, and of nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vllm_observe.model import Cause

PAGE = Path(__file__).parents[2] / "docs" / "causes.md"
SECTIONS = dict(re.findall(r"^## `(\w+)`\n\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE))


def test_every_cause_has_its_section_in_the_order_of_the_code():
    assert list(SECTIONS) == [cause.value for cause in Cause]


@pytest.mark.parametrize("cause", Cause)
def test_a_section_tells_the_evidence_and_the_first_thing_to_do_in_a_paragraph(cause):
    text = " ".join(SECTIONS[cause.value].split())
    assert "*Evidence:*" in text
    assert "*First thing to do:*" in text
    assert "\n\n" not in SECTIONS[cause.value].strip()
