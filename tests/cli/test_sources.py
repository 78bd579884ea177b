from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from http_double import HttpDouble, http_double, in_turn, raw, silence, whole
from support.looks import DATA, page, seen
from support.programs import free_port
from vllm_observe.cli import sources
from vllm_observe.cli.sources import (
    DefaultSource,
    SidecarOptions,
    SidecarSource,
    VllmOptions,
    VllmSource,
)
from vllm_observe.clock import ManualClock
from vllm_observe.errors import ConfigError, ScrapeError, ScrapeFailure
from vllm_observe.model import LimitsSource
from vllm_observe.serve.state import State

SATURATED = "vllm-0.32.0/saturated.prom"
LATER = "vllm-0.32.0/saturated-1s-later.prom"
SERVER_INFO = (DATA / "captures/vllm-0.32.0/server_info.json").read_bytes()


@pytest.fixture
def server():
    with http_double() as running:
        yield running


def serve_vllm(server: HttpDouble, *captures: str) -> None:
    server.answers["/metrics"] = in_turn(*(whole(page(capture)) for capture in captures))
    server.answers["/version"] = whole(b'{"version":"0.32.0"}')
    server.answers["/server_info?config_format=json"] = whole(SERVER_INFO)


def vllm(url: str, clock: ManualClock | None = None, **options: object) -> VllmSource:
    return VllmSource(VllmOptions(url=url, **options), interval=5.0, clock=clock or ManualClock())


def sidecar(url: str, **options: object) -> SidecarSource:
    return SidecarSource(SidecarOptions(url=url, **options), clock=ManualClock())


# --- vLLM itself ----------------------------------------------------------------------------------


def test_a_first_look_knows_the_limits_that_the_server_tells(server):
    serve_vllm(server, SATURATED)
    state = vllm(server.url).look()
    assert (state.engines[0].max_num_seqs, state.limits_source) == (8, LimitsSource.SERVER_INFO)
    assert state.vllm_version == "0.32.0"


def test_a_limit_that_the_server_does_not_tell_is_the_setting(server):
    server.answers["/metrics"] = whole(page("vllm-0.9.2-v0/saturated.prom"))
    state = vllm(server.url, max_num_seqs=16).look()
    assert (state.engines[0].utilization, state.limits_source) == (0.5, LimitsSource.SETTING)


def test_a_second_look_has_a_window(server):
    serve_vllm(server, SATURATED, LATER)
    clock = ManualClock()
    source = vllm(server.url, clock)
    assert source.look().throughput is None
    clock.advance(4.0)
    assert source.look().throughput.generation_tokens_per_s == (7802 - 6546) / 4


def test_one_look_asks_for_the_metrics_once(server):
    serve_vllm(server, SATURATED)
    vllm(server.url).look()
    assert [asked.path for asked in server.asked].count("/metrics") == 1


def test_a_failed_look_keeps_what_was_known_with_its_age(server):
    server.answers["/metrics"] = in_turn(whole(page(SATURATED)), whole(b"", status=503))
    clock = ManualClock()
    source = vllm(server.url, clock)
    source.look()
    clock.advance(6.0)
    state = source.look()
    assert (state.scrape.success, state.scrape.reason) == (False, ScrapeFailure.HTTP_SERVER)
    assert [engine.age_s for engine in state.engines] == [6.0]
    clock.advance(9.0)
    assert source.look().engines == ()


def test_a_server_that_was_restarted_is_asked_anew_for_its_limits(server):
    restarted = page(SATURATED).replace(b"1.79598205848e+09", b"1.79598305848e+09")
    server.answers["/metrics"] = in_turn(whole(page(SATURATED)), whole(restarted))
    server.answers["/server_info?config_format=json"] = in_turn(
        whole(SERVER_INFO), whole(SERVER_INFO.replace(b'"max_num_seqs": 8', b'"max_num_seqs": 32'))
    )
    clock = ManualClock()
    source = vllm(server.url, clock)
    assert source.look().engines[0].max_num_seqs == 8
    clock.advance(5.0)
    state = source.look()
    assert state.engines[0].max_num_seqs == 32
    assert state.throughput is None


# --- A sidecar ------------------------------------------------------------------------------------


def test_a_sidecar_tells_the_state_that_it_sees(server):
    state = seen(SATURATED)
    server.answers["/api/v1/state"] = whole(msgspec.json.encode(state), content_type="application/json")
    source = sidecar(server.url)
    assert source.look() == state
    assert source.name == f"seen by the sidecar at {server.url}"


def test_the_sidecar_gets_its_token(server, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("abc\n")
    server.answers["/api/v1/state"] = whole(msgspec.json.encode(seen(SATURATED)))
    sidecar(server.url, token_file=token).look()
    assert server.asked[0].headers["authorization"] == "Bearer abc"


def document(**changes: object) -> bytes:
    return json.dumps(json.loads(msgspec.json.encode(seen(SATURATED))) | changes).encode()


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (whole(b"", status=401), ScrapeFailure.AUTH, "it wants a token"),
        (whole(b"", status=404), ScrapeFailure.HTTP_CLIENT, "no sidecar's admin API"),
        (whole(b"", status=500), ScrapeFailure.HTTP_SERVER, "its log says why"),
        (silence, ScrapeFailure.TIMEOUT, "is the sidecar hung?"),
        (raw(b"\x00\xff"), ScrapeFailure.CONNECTION, "no connection"),
        (whole(b"<html>hello"), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(b"{}"), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(b"null"), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(b"[" * 100_000), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(b'{"url":"\xff"}'), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(document(url=7)), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(document(limits_source="oracle")), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(document(requests={"lines": -1})), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(document(requests={"lines": 10**400})), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
        (whole(document(stall_after_s=-1)), ScrapeFailure.MALFORMED, "no sidecar's admin API"),
    ],
)
def test_a_sidecar_that_does_not_tell_gives_one_clear_line(server, monkeypatch, answer, reason, message):
    monkeypatch.setattr(sources, "_TIMEOUT_S", 0.3)
    server.answers["/api/v1/state"] = answer
    with pytest.raises(ScrapeError) as failed:
        sidecar(server.url).look()
    assert failed.value.reason is reason
    assert str(failed.value).startswith(f"sidecar at {server.url}: ")
    assert message in str(failed.value)


def test_what_a_newer_sidecar_tells_beyond_this_is_ignored(server):
    server.answers["/api/v1/state"] = whole(document(weather="fine"))
    assert sidecar(server.url).look() == seen(SATURATED)


def test_the_address_of_a_sidecar_is_named_by_its_own_flag():
    with pytest.raises(ConfigError, match="--sidecar must be an http or https address"):
        sidecar("127.0.0.1:9810")


def test_a_password_in_the_address_is_not_shown(server):
    server.answers["/api/v1/state"] = whole(b"", status=500)
    source = sidecar(server.url.replace("http://", "http://me:secret@"))
    assert "secret" not in source.name
    with pytest.raises(ScrapeError) as failed:
        source.look()
    assert "secret" not in str(failed.value)


# --- Whichever is there ---------------------------------------------------------------------------


class Told:
    """A source that tells what a test says."""

    def __init__(self, name: str, *answers: State | ScrapeError) -> None:
        self.name = name
        self._answers = list(answers)

    def look(self) -> State:
        answer = self._answers.pop(0)
        if isinstance(answer, ScrapeError):
            raise answer
        return answer


IDLE, BUSY = seen("vllm-0.32.0/idle.prom"), seen(SATURATED)
REFUSED = ScrapeError(ScrapeFailure.CONNECTION, "no connection")


def test_a_sidecar_that_is_there_is_asked_first():
    source = DefaultSource(sidecar=Told("sidecar", IDLE, REFUSED), vllm=Told("vllm"))
    assert source.look() == IDLE
    assert source.name == "sidecar"
    with pytest.raises(ScrapeError):  # and it stays the one that is asked
        source.look()


def test_without_a_sidecar_vllm_itself_is_asked():
    source = DefaultSource(sidecar=Told("sidecar", REFUSED), vllm=Told("vllm", BUSY, IDLE))
    assert source.look() == BUSY
    assert source.name == "vllm"
    assert source.look() == IDLE


def test_a_sidecar_that_lets_nobody_in_is_not_passed_over():
    locked = ScrapeError(ScrapeFailure.AUTH, "it wants a token")
    source = DefaultSource(sidecar=Told("sidecar", locked), vllm=Told("vllm", BUSY))
    with pytest.raises(ScrapeError, match="it wants a token"):
        source.look()
    assert source.name == "sidecar"


def test_nothing_listens_on_a_free_port():
    with pytest.raises(ScrapeError) as failed:
        sidecar(f"http://127.0.0.1:{free_port()}").look()
    assert failed.value.reason is ScrapeFailure.CONNECTION
