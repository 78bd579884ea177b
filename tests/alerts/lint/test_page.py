"""The page about the checks names all of them, in their own words."""

from __future__ import annotations

import re

from support.linting import TESTS
from vllm_observe.alerts.lint.checks import CHECKS


def test_the_page_has_a_row_for_each_check():
    page = (TESTS.parent / "docs" / "check-rules.md").read_text(encoding="utf-8")
    table = page.partition("## Checks")[2].partition("##")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", table, re.MULTILINE)
    assert rows[1:] == [(check.id, check.what) for check in CHECKS]


def test_ids_are_unique_and_their_modules_bear_their_names():
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert check.run.__module__.rpartition(".")[2] == check.id.replace("-", "_")
