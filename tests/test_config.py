from __future__ import annotations

import os

import pytest

from vllm_observe.clock import ManualClock
from vllm_observe.config import FieldRule, RequestLog, Settings, load_settings
from vllm_observe.errors import ConfigError
from vllm_observe.model import ServiceClass
from vllm_observe.pipeline import Pipeline


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("VLLM_OBSERVE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def yaml(tmp_path):
    def write(text: str):
        path = tmp_path / "sidecar.yaml"
        path.write_text(text)
        return path

    return write


def complaint(**arguments) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(**arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_without_any_word_the_defaults_hold():
    settings = load_settings()
    assert settings.vllm_url == "http://127.0.0.1:8000"
    assert settings.scrape_interval == 5.0
    assert settings.admin_listen.startswith("127.0.0.1:")
    assert settings.request_logs == ()


def test_the_later_source_wins_file_then_environment_then_flag(yaml, monkeypatch):
    config = yaml("scrape_interval: 10s\njoin_window: 20s\nstall_after: 2m\n")
    monkeypatch.setenv("VLLM_OBSERVE_JOIN_WINDOW", "30")
    monkeypatch.setenv("VLLM_OBSERVE_STALL_AFTER", "3m")
    settings = load_settings(config=config, flags={"stall_after": "4m"})
    assert (settings.scrape_interval, settings.join_window, settings.stall_after) == (10.0, 30.0, 240.0)


def test_a_flag_that_was_not_given_overrides_nothing(yaml):
    assert load_settings(config=yaml("max_num_seqs: 8"), flags={"max_num_seqs": None}).max_num_seqs == 8


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("5s", 5), ("250ms", 0.25), ("1.5m", 90), ("2h", 7200), ("1d", 86400)]
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert load_settings(flags={"join_window": text}).join_window == seconds


@pytest.mark.parametrize("setting", sorted(name for name in Settings.model_fields if name.endswith("_bytes")))
def test_sizes_are_read_as_people_write_them_wherever_a_setting_is_bytes(yaml, monkeypatch, setting):
    assert getattr(load_settings(config=yaml(f"{setting}: 64MiB")), setting) == 67_108_864
    assert getattr(load_settings(config=yaml(f"{setting}: 67108864")), setting) == 67_108_864
    monkeypatch.setenv(f"VLLM_OBSERVE_{setting.upper()}", "67108864")
    assert getattr(load_settings(), setting) == 67_108_864
    monkeypatch.setenv(f"VLLM_OBSERVE_{setting.upper()}", "3 GiB")
    assert getattr(load_settings(), setting) == 3_221_225_472


def test_a_request_log_is_a_path_or_a_path_with_its_reading(yaml):
    config = yaml(
        """
        request_logs:
          - /var/log/app/*.jsonl
          - path: /var/log/pods/*.log
            wrapper: cri
            start: end
            fields: {request_id: x_request_id, duration_s: {from: latency_ms, scale: 0.001}, client: null}
        """
    )
    assert load_settings(config=config).request_logs == (
        RequestLog(path="/var/log/app/*.jsonl"),
        RequestLog(
            path="/var/log/pods/*.log",
            wrapper="cri",
            start="end",
            fields={
                "request_id": FieldRule(source="x_request_id"),
                "duration_s": FieldRule(source="latency_ms", scale=0.001),
                "client": None,
            },
        ),
    )


def test_the_environment_lists_request_logs_with_commas(monkeypatch):
    monkeypatch.setenv("VLLM_OBSERVE_REQUEST_LOGS", "/a/*.jsonl, /b.jsonl")
    assert [log.path for log in load_settings().request_logs] == ["/a/*.jsonl", "/b.jsonl"]


def test_a_nested_setting_has_a_variable_too(monkeypatch):
    monkeypatch.setenv("VLLM_OBSERVE_ADMIN_SECURITY__TOKEN_FILE", "/run/secrets/admin")
    assert str(load_settings().admin_security.token_file) == "/run/secrets/admin"


def test_targets_come_from_the_service_class_unless_set():
    settings = load_settings(flags={"service_class": "batch", "target_tpot": "0.2"})
    assert settings.service_class is ServiceClass.BATCH
    assert (settings.targets.ttft, settings.targets.tpot, settings.targets.e2e) == (30.0, 0.2, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scrape_intervall: 4", ["scrape_intervall", "did you mean scrape_interval?"]),
        ("request_logs: [{pth: x}]", ["request_logs.0.pth", "did you mean path?"]),
        ("request_logs: [{path: x, fields: {a: {frm: b}}}]", ["fields.a.frm", "did you mean from?"]),
        ("request_logs: [{path: x, fields: {ts: 5}}]", ["request_logs.0.fields.ts"]),
        ("request_logs: [{path: x, fields: {ts: ''}}]", ["request_logs.0.fields.ts.from"]),
        ("request_logs: [{path: x, fields: {ts: {scale: 2}}}]", ["request_logs.0.fields.ts.from"]),
        ("request_logs: [{path: x, fields: {ts: {from: [t]}}}]", ["request_logs.0.fields.ts.from"]),
        (
            "request_logs: [{path: x, fields: {ts: {from: t, scale: -1}}}]",
            ["fields.ts.scale", "greater than 0"],
        ),
        (
            "request_logs: [{path: x, fields: {ts: {from: t, scale: 0}}}]",
            ["fields.ts.scale", "greater than 0"],
        ),
        (
            "request_logs: [{path: x, fields: {ts: {from: t, scale: .nan}}}]",
            ["request_logs.0.fields.ts.scale"],
        ),
        ("admin_security: {tokn_file: x}", ["admin_security.tokn_file", "did you mean token_file?"]),
        ("scrape_interval: 0.2", ["scrape_interval", "--scrape-interval", "greater than or equal to 1"]),
        ("scrape_interval: soon", ["scrape_interval", "must be a duration"]),
        ("join_window: -5", ["join_window", "greater than 0"]),
        ("join_window: .nan", ["join_window"]),
        ("join_window: .inf", ["join_window", "finite"]),
        ("max_num_seqs: 0", ["max_num_seqs", "greater than 0"]),
        ("service_class: chat", ["service_class", "interactive", "batch"]),
        ("request_logs: [{path: x, format: ngnix}]", ["0.format", "'envoy'", "did you mean nginx?"]),
        ("request_logs: [{path: x, format: json}]", ["0.format", "did you mean jsonl?"]),
        ("request_logs: [{path: x, format: 5}]", ["0.format", "'litellm'"]),
        ("request_logs: 5", ["request_logs", "--request-log", "list of paths"]),
        ("- a", ["name: value"]),
        ("a: [", ["line 1", "not YAML"]),
        ("5: x", ["name: value"]),
        ("listen: 2026-13-45", ["cannot read"]),
        ("join_window: !!int a", ["cannot read"]),
        ("x: " + "[" * 5000, ["sidecar.yaml"]),
        ("x: !!python/object:os.system {}", ["sidecar.yaml"]),
        ("max_sessions: 0", ["max_sessions", "greater than 0"]),
        ("store_max_bytes: 4MiB", ["store_max_bytes", "must be at least 32 MiB"]),
        ("store_max_bytes: 33554431", ["store_max_bytes", "must be at least 32 MiB"]),
        ("store_max_bytes: 4 GB", ["store_max_bytes", "64MiB or 2GiB"]),
        ("scrape_max_bytes: 0KiB", ["scrape_max_bytes", "greater than 0"]),
    ],
)
def test_a_wrong_setting_gives_one_line_that_names_it_and_the_mend(yaml, text, words):
    message = complaint(config=yaml(text))
    for word in words:
        assert word in message


def test_no_message_names_a_flag_that_does_not_exist(yaml):
    assert "--max-sessions" not in complaint(config=yaml("max_sessions: 0"))


def test_a_field_that_no_record_has_is_refused_with_its_log_and_the_near_name(yaml):
    settings = load_settings(config=yaml("request_logs: [{path: app.jsonl, fields: {modle: x}}]"))
    with pytest.raises(ConfigError, match=r"request_logs: app\.jsonl: fields\.modle .* did you mean model\?"):
        Pipeline(settings, clock=ManualClock())


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    assert "no-such.yaml" in complaint(config=tmp_path / "no-such.yaml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in complaint(config=tmp_path / "binary")
    assert "cannot read" in complaint(config=tmp_path)


def test_an_empty_file_sets_nothing(yaml):
    assert load_settings(config=yaml("# nothing yet\n")).scrape_interval == Settings().scrape_interval


def test_a_misspelt_variable_is_refused_with_the_near_name(monkeypatch):
    monkeypatch.setenv("VLLM_OBSERVE_SCRAPE_INTERVALL", "4")
    assert "did you mean scrape_interval?" in complaint()


@pytest.mark.parametrize(
    "variable",
    [
        "VLLM_OBSERVE_SERVICE_HOST",  # what Kubernetes sets for a Service named vllm-observe
        "VLLM_OBSERVE_SERVICE_PORT_METRICS",
        "VLLM_OBSERVE_PORT",
        "VLLM_OBSERVE_PORT_9809_TCP_ADDR",
        "OBSERVE_PLUGIN_LOG",  # the plugin's own, on one box with the sidecar
    ],
)
def test_variables_of_others_are_left_alone(monkeypatch, variable):
    monkeypatch.setenv(variable, "tcp://10.0.0.1:9809")
    assert load_settings().vllm_url == "http://127.0.0.1:8000"


def test_a_message_never_repeats_a_value_that_may_be_secret(yaml):
    message = complaint(config=yaml("vllm_url: [http://user:hunter2@host]"))
    assert "vllm_url" in message
    assert "hunter2" not in message
