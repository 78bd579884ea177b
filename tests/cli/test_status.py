"""The command as a person or a script meets it: real pages over HTTP, the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import msgspec
import pytest

from http_double import Answer, HttpDouble, http_double, raw, silence, whole
from support.looks import DATA, page, seen
from support.programs import free_port
from support.sidecar import PROGRAM
from vllm_observe.cli import sources
from vllm_observe.cli.sources import SidecarOptions, VllmOptions
from vllm_observe.errors import ScrapeError, ScrapeFailure
from vllm_observe.serve.state import RequestsState, ScrapeStatus, State

SATURATED = "vllm-0.32.0/saturated.prom"


@pytest.fixture
def server():
    with http_double() as running:
        running.answers["/version"] = whole(b'{"version":"0.32.0"}')
        running.answers["/server_info?config_format=json"] = whole(
            (DATA / "captures/vllm-0.32.0/server_info.json").read_bytes()
        )
        yield running


@pytest.fixture
def look(run, server):
    """Run ``status`` at a server that answers so for its metrics."""

    def look(answer: bytes | Answer, *arguments: str):
        server.answers["/metrics"] = whole(answer) if isinstance(answer, bytes) else answer
        return run("status", "--vllm-url", server.url, *arguments)

    return look


def serve_state(server: HttpDouble, state: State) -> None:
    server.answers["/api/v1/state"] = whole(msgspec.json.encode(state), content_type="application/json")


# --- What is shown --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capture", "code", "headline"),
    [
        ("vllm-0.32.0/saturated.prom", 0, "saturated: 8 of 8 slots, 16 waiting"),
        ("vllm-0.32.0/idle.prom", 0, "idle"),
        ("vllm-0.32.0/data-parallel-2.prom", 0, "near its limit: 16 of 16 slots, 0 waiting (all 2 engines)"),
        ("vllm-0.9.2-v0/saturated.prom", 0, "saturated: 8 of 8 slots, 16 waiting"),
        ("vllm-0.9.2-v1/loaded.prom", 0, "saturated: 8 of 8 slots, 16 waiting"),
        ("vllm-0.16.0-engine-dead/metrics.prom", 1, "dead engine: requests are answered 2xx"),
    ],
)
def test_a_real_server_is_told_in_one_sentence_and_a_table(look, capture, code, headline):
    ran = look(page(capture))
    assert (ran.code, ran.err) == (code, "")
    assert ran.out.startswith(headline)
    assert "model tiny" in ran.out
    assert "asked directly" in ran.out
    assert "\x1b" not in ran.out  # this is no terminal


def test_the_limit_can_be_told(look, server):
    del server.answers["/server_info?config_format=json"]
    assert look(page(SATURATED)).out.startswith("waiting: 8 running, 16 waiting, max_num_seqs unknown")
    assert look(page(SATURATED), "--max-num-seqs", "8").out.startswith("saturated: 8 of 8 slots")


def test_kv_usage_under_its_old_name_is_shown_and_an_absent_one_is_absent(look):
    old = page("vllm-0.9.2-v0/saturated.prom")
    full = old.replace(
        b'_cache_usage_perc{model_name="tiny"} 0.0', b'_cache_usage_perc{model_name="tiny"} 0.937'
    )
    assert " 93.7 % " in look(full).out
    without = old.replace(b"vllm:gpu_cache_usage_perc", b"vllm:something_else")
    ran = look(without)
    assert " absent " in ran.out
    assert "vllm:kv_cache_usage_perc" in ran.out
    assert " 0 % " not in ran.out


def test_another_metrics_path_can_be_given(run, server):
    server.answers["/v2/metrics"] = whole(page(SATURATED))
    ran = run("status", "--vllm-url", server.url, "--metrics-path", "/v2/metrics")
    assert ran.out.startswith("saturated")


def test_vllm_gets_its_token(look, server, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("abc\n")
    look(page(SATURATED), "--scrape-token-file", token)
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer abc"}


# --- What goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (whole(b"", status=401), "not let in: {url}/metrics answers 401"),
        (whole(b"", status=404), "no state: {url}/metrics answers 404: check --vllm-url"),
        (whole(b"", status=500), "metrics fail: {url}/metrics answers 500"),
        (whole(b"<html><body>{{{ hello"), "no state: "),
        (whole(b""), "no state: "),
        (whole(bytes(range(256)) * 9), "no state: "),
        (whole((DATA / "cases/06-up-but-nothing/a_python_only_200.prom").read_bytes()), "no vLLM metrics: "),
        (whole(b"", status=302, Location="http://elsewhere:1/"), "no state: {url}/metrics redirects"),
        (
            raw(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\nvllm:x 1\n"),
            "no state: {url}/metrics broke off",
        ),
        (raw(b"SSH-2.0-OpenSSH_9\r\n"), "down: {url}/metrics: "),
        (silence, "hung or overloaded: {url}/metrics gave no whole answer within 0.3 s"),
    ],
)
def test_what_gives_no_state_gives_one_line_and_code_1(look, server, monkeypatch, answer, line):
    monkeypatch.setattr(sources, "_TIMEOUT_S", 0.3)
    ran = look(answer)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("vllm-observe: " + line.format(url=server.url))
    assert ran.err.count("\n") == 1


def test_a_refused_connection_gives_one_line_and_code_1(run):
    url = f"http://127.0.0.1:{free_port()}"
    ran = run("status", "--vllm-url", url)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"vllm-observe: down: {url}/metrics: nothing listens there: is vLLM up, and --vllm-url right?\n"
    )


def test_metrics_without_an_engine_are_an_unknown_state(look):
    requests = (
        b'# TYPE vllm:request_success_total counter\nvllm:request_success_total{finished_reason="stop"} 3\n'
    )
    ran = look(requests)
    assert ran.code == 1
    assert ran.out.startswith("state unknown: vLLM tells neither running nor waiting requests")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interval", "0.5s"], "--interval must be 1s or more"),
        (["--interval", "often"], "--interval must be a duration such as 5, 5s, 250ms or 10m"),
        (["--vllm-url", "vllm:8000"], "--vllm-url must be an http or https address"),
        (["--sidecar", "sidecar"], "--sidecar must be an http or https address"),
        (
            ["--sidecar", "http://a", "--vllm-url", "http://b"],
            "--sidecar asks a sidecar and --vllm-url a vLLM",
        ),
        (
            ["--sidecar", "http://a", "--max-num-seqs", "8"],
            "--sidecar asks a sidecar and --max-num-seqs a vLLM",
        ),
        (["--scrape-token-file", "/no/such/file"], "--scrape-token-file"),
        (["--token-file", "/no/such/file"], "--token-file"),
    ],
)
def test_wrong_use_is_told_before_anybody_is_asked(run, arguments, message):
    ran = run("status", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


# --- A sidecar ------------------------------------------------------------------------------------


def test_a_sidecar_is_asked_for_what_it_sees(run, server):
    serve_state(server, msgspec.structs.replace(seen(SATURATED), requests=RequestsState(joined={"ok": 7})))
    ran = run("status", "--sidecar", server.url)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("saturated: 8 of 8 slots, 16 waiting\nvLLM 0.32.0 at http://vllm:8000")
    assert f"seen by the sidecar at {server.url}" in ran.out
    assert "7 ok; slow or failed: none" in ran.out


def test_a_sidecar_whose_vllm_is_down_still_tells_of_the_requests(run, server):
    down = ScrapeStatus(success=False, age_s=90.0, message="nothing listens there")
    requests = RequestsState(lines=9, joined={"ok": 7, "abort": 2})
    serve_state(server, msgspec.structs.replace(seen(SATURATED), scrape=down, engines=(), requests=requests))
    ran = run("status", "--sidecar", server.url)
    assert ran.code == 1
    assert ran.out.startswith("no state: nothing listens there (last seen 90 s ago)\n")
    assert "7 ok, 2 abort" in ran.out


def test_a_sidecar_that_is_not_there_gives_one_line_and_code_1(run):
    ran = run("status", "--sidecar", f"http://127.0.0.1:{free_port()}")
    assert (ran.code, ran.out) == (1, "")
    assert "is the sidecar up" in ran.err


def test_the_environment_names_the_vllm_where_no_option_does(run, server, monkeypatch):
    server.answers["/metrics"] = whole(page(SATURATED))
    monkeypatch.setenv("VLLM_OBSERVE_VLLM_URL", server.url)
    assert "asked directly" in run("status", "--max-num-seqs", "8").out
    serve_state(server, seen("vllm-0.32.0/idle.prom"))
    assert run("status", "--sidecar", server.url).out.startswith("idle\n")


def test_without_a_word_the_sidecar_of_this_machine_is_asked_and_else_its_vllm(run, monkeypatch):
    asked: list[str] = []

    class Source:
        name = "a source of this test"

        def __init__(self, options: VllmOptions | SidecarOptions, **_: object) -> None:
            self._url = options.url

        def look(self) -> State:
            asked.append(self._url)
            if len(asked) == 1:
                raise ScrapeError(ScrapeFailure.CONNECTION, "no connection")
            return seen(SATURATED)

    monkeypatch.setattr(sources, "VllmSource", Source)
    monkeypatch.setattr(sources, "SidecarSource", Source)
    assert run("status").code == 0
    assert asked == ["http://127.0.0.1:9810", "http://127.0.0.1:8000"]


# --- JSON -----------------------------------------------------------------------------------------


def test_json_is_the_state_as_one_document(look, server):
    ran = look(page(SATURATED), "--json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert document["engines"][0]["utilization"] == 1.0
    assert document["engines"][0]["binding_limit"] == "slots"
    assert document["url"] == server.url
    assert document["found"]["kv_usage"] == "vllm:kv_cache_usage_perc"
    prefill = next(latency for latency in document["latency"] if latency["signal"] == "prefill_time")
    assert prefill["p95"] == {"value_s": 0.3, "bound": "below"}
    assert (prefill["window_s"], document["throughput"]) == (None, None)


def test_json_tells_of_a_problem_too(look):
    ran = look(whole(b"", status=401), "--json")
    document = json.loads(ran.out)
    assert ran.code == 1
    assert (document["scrape"]["success"], document["scrape"]["reason"]) == (False, "auth")
    assert document["engines"] == []
    assert ran.err.startswith("vllm-observe: not let in: ")


def test_json_holds_nothing_that_moves_a_terminal(look):
    evil = "\x1b[2J\x7f\x9b31m\u202e模"
    ran = look(page(SATURATED).replace(b'model_name="tiny"', f'model_name="{evil}"'.encode()), "--json")
    assert json.loads(ran.out)["engines"][0]["model_name"] == evil
    assert ran.out.isascii()
    assert "\x1b" not in ran.out
    assert "\x7f" not in ran.out


# --- The program ----------------------------------------------------------------------------------


@pytest.fixture
def program(server):
    """Start the installed program at a saturated vLLM."""
    server.answers["/metrics"] = whole(page(SATURATED))

    def start(stdout: int | IO[bytes] = subprocess.PIPE, **environment: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PROGRAM, "status", "--vllm-url", server.url],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=os.environ | environment,
        )

    return start


def test_a_pipe_whose_reader_has_gone_is_no_error(program):
    process = program()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(20) == 0
    process.stderr.close()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_cannot_be_written_gives_one_line(program, unbuffered):
    with Path("/dev/full").open("wb") as full:
        process = program(stdout=full, PYTHONUNBUFFERED=unbuffered)
        _, err = process.communicate(timeout=20)
    assert err == b"vllm-observe: standard output cannot be written: No space left on device\n"
    assert process.returncode == 1


def test_an_output_without_the_characters_gets_others(program):
    out, err = program(PYTHONIOENCODING="ascii").communicate(timeout=20)
    assert out.startswith(b"saturated: 8 of 8 slots, 16 waiting\n")
    assert b"throughput    ? (needs two looks" in out
    assert err == b""


def work(process: subprocess.Popen[bytes]) -> float:
    """Processor seconds of a program from its start to its end, the interpreter's own included."""
    process.stdout.read()
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    process.communicate()
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_a_table_takes_less_than_four_times_the_work_of_loading_what_draws_it(program):
    def table() -> float:
        return work(program(PYTHONDONTWRITEBYTECODE=""))

    def libraries() -> float:
        loads = [sys.executable, "-c", "import requests, rich.table, typer"]
        return work(subprocess.Popen(loads, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    # As a ratio, turn by turn: how fast this machine is, and what else runs on it, counts little.
    table()  # the first run compiles the package, as an installation does
    turns = [(table(), libraries()) for _ in range(5)]
    tables, loads = map(min, zip(*turns, strict=True))
    assert tables < 4 * loads


def test_a_look_loads_nothing_that_only_the_sidecar_needs(program):
    _, err = program(PYTHONPROFILEIMPORTTIME="1").communicate(timeout=30)
    loaded = {line.rpartition(b"|")[2].strip().decode() for line in err.splitlines()}
    assert "vllm_observe.cli.look" in loaded
    assert not loaded & {"starlette", "uvicorn", "pydantic_settings", "grafanalib", "vllm_observe.config"}
