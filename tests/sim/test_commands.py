"""The words by which another program commands a simulated vLLM: read as they are meant, or refused."""

from __future__ import annotations

import pytest

from support.sims import deployment
from vllm_observe.sim.control import Control
from vllm_observe.sim.http.commands import UnknownCommandError, command


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("slow_down 3", lambda it: it.deployment.engines[0].pace.slowdown == 3.0),
        ("fail_share 0.25", lambda it: it.deployment.fail_share == 0.25),
        ("fail_scrape on", lambda it: it.scrape_fails),
        ("slow_scrape 2.5", lambda it: it.scrape_delay_s == 2.5),
        ("restart 20", lambda it: not it.deployment.loaded),
        ("restart", lambda it: it.deployment.loaded),
    ],
)
def test_a_command_does_what_it_says(line, holds):
    it = Control(deployment())

    command(line)(it)

    assert holds(it)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "explode",
        "hang 3",
        "slow_down",
        "slow_down 1 2",
        # A step of no time would never let time pass, and of a time that is no number neither.
        *(f"slow_down {word}" for word in ("0", "-1", "nan", "inf", "1e400", "fast")),
        *(f"fail_share {word}" for word in ("-0.1", "1.1", "nan")),
        *(f"restart {word}" for word in ("-5", "nan", "inf")),
        *(f"slow_scrape {word}" for word in ("-1", "nan")),
        *(f"crash {word}" for word in ("0", "99", "600", "200.5", "9" * 5000)),
        "fail_scrape maybe",
        "stop_log",
    ],
)
def test_what_is_no_command_is_refused(line):
    with pytest.raises(UnknownCommandError):
        command(line)
