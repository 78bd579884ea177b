from __future__ import annotations

import pytest

from vllm_observe.records.rotated import keeps_rotations, log_of


@pytest.mark.parametrize(
    ("name", "logs"),
    [
        ("app.log.1", {"app.log"}),
        ("app.log.12.gz", {"app.log"}),
        ("app.log-20260302", {"app.log"}),
        ("app.log-20260302-1772446500.gz", {"app.log"}),
        ("app.log.2026-03-02_10-15", {"app.log"}),
        ("0.log.20260302-101500.gz", {"0.log"}),
        ("app-20260302.log", {"app.log"}),
        ("app.2026-03-02.log.gz", {"app.log"}),
        ("app-1.log.3", {"app-1.log"}),
        ("app.log", set()),
        ("app-8001.log", set()),
        ("app.log.gz", set()),
        ("app.log.1.bz2", {"app.log"}),
        ("app.log.2026-03-02.0.xz", {"app.log"}),  # Spring Boot
        ("app.log.2026-03-02T10:15:00+01:00", {"app.log"}),
        ("app-2026-03-02T10-15-00.123.log", {"app.log"}),  # lumberjack
        ("app-2026-03-02T10-15-00.123.log.gz", {"app.log"}),
        ("app.2026-03-02_10-15-00_123456.log", {"app.log"}),  # loguru
        ("app.2026-03-02_10-15-00_123456.2.log.zip", {"app.log"}),
        ("app-03-02-2026-1.log.gz", {"app.log"}),  # log4j2
        ("app-2026-03.log", {"app.log"}),
        ("app.3.log", {"app.log"}),  # spdlog, and logrotate with "extension .log"
        ("app.3.log.zst", {"app.log"}),
        ("app.log.old", {"app.log"}),
        ("app.log.old.2", {"app.log"}),
        ("app.old.log", {"app.log"}),
        ("app-errors.log", set()),
        ("app-errors-20260302.log", {"app-errors.log"}),
        ("app2.log", set()),
        ("app-2.log", set()),
        ("app.8001.log", set()),
        ("app-2026.log", set()),
        ("app.log.bak", set()),
        ("app.log.bak.swp", set()),
        ("app.log.1.swp", {"app.log.swp"}),  # which is no log
        ("app.log.1~", set()),
        (".app.log.swp", set()),
        ("app.1.gz", {"app"}),
        ("app.gz", set()),
        ("app.log.swp", set()),
        (".1", set()),
        ("", set()),
        ("\n.1", {"\n"}),
        ("1" * 254 + "x", set()),
        ("-1" * 127 + "x", set()),
        ("-20260101" + ".1" * 120 + ".a~", set()),
        ("-" * 254 + "x", set()),
    ],
)
def test_the_log_of_a_rotation_is_known_by_the_name(name, logs):
    assert log_of(name) == logs


@pytest.mark.parametrize(
    ("folder", "keeps"),
    [
        ("old", True),
        ("archive", True),
        ("archived", True),
        ("backup", True),
        ("2026-03", True),  # log4j2
        ("errors", False),
        ("older", False),
        ("2026", False),
        ("", False),
    ],
)
def test_a_folder_for_rotations_is_known_by_its_name(folder, keeps):
    assert keeps_rotations(folder) is keeps
