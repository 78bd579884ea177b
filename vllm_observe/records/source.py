"""What is followed: a path or a glob, and how its lines are to be read."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from vllm_observe.records.formats import Decode, jsonl

__all__ = ["Line", "Source", "Start", "Wrapper"]


class Start(str, Enum):
    """Where reading begins in a file that is there when the program first starts."""

    BEGINNING = "beginning"
    END = "end"


class Wrapper(str, Enum):
    """What a container runtime may have put around each line."""

    AUTO = "auto"  # what the shape of a line tells
    CRI = "cri"
    DOCKER = "docker"
    NONE = "none"


class Source(NamedTuple):
    """Files that one application writes. A glob may hold ``*``, ``?``, ``[…]`` and ``**``."""

    path: str
    decode: Decode = jsonl
    wrapper: Wrapper = Wrapper.AUTO
    start: Start = Start.BEGINNING


class Line(NamedTuple):
    """One line as its application wrote it: no newline, no wrapper.

    ``start`` is the byte at which it begins in its file. A line over the cap comes once, as its first
    bytes, with ``whole`` false.
    """

    source: Source
    path: str
    start: int
    data: bytes
    whole: bool = True
