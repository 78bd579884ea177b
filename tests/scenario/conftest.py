"""What the scenarios of following share: one log, and a follower of it and of its rotations."""

from __future__ import annotations

import pytest

from support.logs import Followed


@pytest.fixture
def log(tmp_path):
    return tmp_path / "app.jsonl"


@pytest.fixture
def followed(tmp_path):
    followed = Followed(tmp_path / "app.jsonl*")
    yield followed
    followed.follower.close()
