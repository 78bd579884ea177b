"""What a check finds, as values: how bad it is, what to do, and where it stands."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["Finding", "Level", "Problem"]


class Level(str, Enum):
    """How bad it is."""

    ERROR = "error"  # the rule cannot do what it says: it never fires, always fires, or fails
    WARNING = "warning"  # it does so under conditions, or tells something else than it seems to
    INFO = "info"  # worth knowing; right as it is for somebody who does know


class Finding(NamedTuple):
    """What a check says of a rule: one sentence that says what is wrong and what to write instead."""

    level: Level
    message: str


class Problem(NamedTuple):
    """A finding with its place: the rule begins at ``line`` of ``file``."""

    file: str
    line: int
    group: str
    rule: str
    check: str
    level: Level
    message: str
