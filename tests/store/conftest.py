"""A store in a new file for each test."""

from __future__ import annotations

import pytest

from support.stores import open_store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "requests.db"


@pytest.fixture
def store(path):
    opened = open_store(path)
    yield opened
    opened.close()
