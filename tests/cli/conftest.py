"""The command line as a test runs it: the same everywhere, whatever the machine's own settings are."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import pytest

from vllm_observe.cli import main


class Ran(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """80 columns, no settings from the environment, and UTC."""
    for name in (
        *filter(lambda name: name.startswith("VLLM_OBSERVE_"), list(os.environ)),
        "FORCE_COLOR",
        "NO_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def run(capsys):
    """Run the command line within this process."""

    def run(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Ran(int(ended.value.code or 0), *capsys.readouterr())

    return run
