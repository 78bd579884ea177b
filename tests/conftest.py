"""What all tests share: golden files, Prometheus's programs, and what becomes of tests without them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

#: The programs by the fixture that gives their path; Debian calls the last one by the second name.
PROGRAMS = {
    "promtool": ("promtool",),
    "prometheus": ("prometheus",),
    "amtool": ("amtool",),
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "nginx": ("nginx", "/usr/sbin/nginx"),  # where it is, but not on every user's path
    "logrotate": ("logrotate", "/usr/sbin/logrotate"),
}
GOLDEN = Path(__file__).parent / "golden"
DESELECTED = pytest.StashKey[int]()

# No deadline: how long an example takes is the machine's affair. In CI the same examples each time, so
# that a failure is the change's; everywhere else new ones, so that they find something.
settings.register_profile("everywhere", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")


def _find(fixture: str) -> Path | None:
    paths = (shutil.which(name) for name in PROGRAMS[fixture])
    return next((Path(path) for path in paths if path), None)


def _get(fixture: str) -> Path:
    path = _find(fixture)
    if path is None:
        pytest.fail(f"{fixture} is not installed: run scripts/install_prometheus.sh")
    return path


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program that checks and tests rules and expositions."""
    return _get("promtool")


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The Prometheus server's program."""
    return _get("prometheus")


@pytest.fixture(scope="session")
def amtool() -> Path:
    """The program that checks an Alertmanager's configuration."""
    return _get("amtool")


@pytest.fixture(scope="session")
def alertmanager() -> Path:
    """The Alertmanager's program."""
    return _get("alertmanager")


@pytest.fixture(scope="session")
def nginx() -> Path:
    """The nginx server's program."""
    return _get("nginx")


@pytest.fixture(scope="session")
def logrotate() -> Path:
    """The program that rotates logs on most servers."""
    return _get("logrotate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that accepts changed outputs."""
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files anew; read the diff"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a whole output with a file of tests/golden/: ``golden("exporter/idle.om", page)``."""

    def compare(name: str, actual: str) -> None:
        file = GOLDEN / name
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(actual, encoding="utf-8")
        assert actual == file.read_text(encoding="utf-8")

    return compare


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use a program; leave out, loudly, those whose program is missing.

    Where CI is set nothing is left out: a missing program then fails its tests.
    """
    missing = set() if os.environ.get("CI") else {fixture for fixture in PROGRAMS if _find(fixture) is None}
    kept, left_out = [], []
    for item in items:
        used = PROGRAMS.keys() & set(getattr(item, "fixturenames", ()))
        if used:
            item.add_marker("prometheus")
        (left_out if used & missing else kept).append(item)
    if left_out:
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)
        config.stash[DESELECTED] = len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end what was left out, so that a green run is not taken for a whole one."""
    count = config.stash.get(DESELECTED, 0)
    if count:
        terminalreporter.write_line(
            f"NOT RUN: {count} tests that need promtool, Prometheus, Alertmanager, nginx or logrotate. "
            "To run them: sh scripts/install_prometheus.sh",
            red=True,
            bold=True,
        )
