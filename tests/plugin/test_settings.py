from __future__ import annotations

from pathlib import Path

import pytest

from vllm_observe.plugin.settings import Settings


def test_without_any_variable_the_log_is_where_logs_are_and_else_the_users(caplog):
    settings = Settings.read({"HOME": "/home/me"})
    assert settings.logs == (
        Path("/var/log/vllm-observe/requests.jsonl"),
        Path("/home/me/.local/state/vllm-observe/requests.jsonl"),
    )
    assert settings.session_header == b"x-session-id"
    assert caplog.messages == []


def test_each_setting_has_its_variable():
    settings = Settings.read(
        {
            "OBSERVE_PLUGIN_LOG": "/logs/r.jsonl",
            "OBSERVE_PLUGIN_LOG_MAX_BYTES": "2000000",
            "OBSERVE_PLUGIN_LOG_FILES": "9",
            "OBSERVE_PLUGIN_SESSION_HEADER": "X-Chat-ID",
            "OBSERVE_PLUGIN_PROFILE_HEADER": "X-Use",
            "OBSERVE_PLUGIN_CLIENT_HEADER": "X-Team",
        }
    )
    assert settings == Settings((Path("/logs/r.jsonl"),), 2_000_000, 9, b"x-chat-id", b"x-use", b"x-team")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LOG_MAX_BYTES", "64MB"),
        ("LOG_MAX_BYTES", "0"),
        ("LOG_FILES", "-1"),
        ("LOG_FILES", "9" * 5000),
        ("SESSION_HEADER", "X Session: ü"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named_and_its_default_holds(name, value, caplog):
    assert Settings.read({f"OBSERVE_PLUGIN_{name}": value}) == Settings.read({})
    (message,) = caplog.messages
    assert f"OBSERVE_PLUGIN_{name}" in message
