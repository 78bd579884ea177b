"""The simulated vLLM as a process: its port, its signals, its commands, its request log."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
import requests

from support.programs import answers
from support.waiting import becomes, eventually
from vllm_observe.sim.__main__ import main
from vllm_observe.sim.pages import releases

CHAT = {"messages": [{"role": "user", "content": "tell me"}], "ignore_eos": True}


class Server:
    """A running ``python -m vllm_observe.sim``."""

    def __init__(self, *options, **pipes):
        command = [
            sys.executable,
            "-m",
            "vllm_observe.sim",
            "--hardware",
            "tiny-cpu",
            "--port",
            "0",
            *options,
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **pipes
        )
        self.url = self.process.stdout.readline().strip()

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, **values):
        return requests.post(f"{self.url}/v1/chat/completions", json={**CHAT, **values}, timeout=20)


@contextmanager
def started(*options):
    server = Server(*options)
    with server.process:
        try:
            yield server
        finally:
            server.process.kill()


@contextmanager
def running(*options):
    with started(*options) as server:
        eventually(lambda: answers(f"{server.url}/health"), within=20, what="the server")
        yield server


def refused(server):
    try:
        requests.get(f"{server.url}/health", timeout=5)
    except requests.ConnectionError:
        return True
    return False


def test_it_serves_on_a_port_and_ends_on_sigterm_with_its_log_written(tmp_path):
    log = tmp_path / "requests.jsonl"
    with running("--log", str(log), "--release", "0.32.0") as server:
        assert server.ask(max_tokens=3).json()["usage"]["completion_tokens"] == 3
        server.process.terminate()

        assert server.process.wait(timeout=20) == 0
    kinds = [json.loads(line).get("kind", "edge") for line in log.read_text(encoding="utf-8").splitlines()]
    assert sorted(kinds) == ["edge", "engine", "limits", "sample"]


def test_it_ends_though_requests_never_do():
    with running("--commands") as server:
        server.say("hang")
        with requests.post(
            f"{server.url}/v1/chat/completions",
            json={**CHAT, "max_tokens": 9, "stream": True},
            stream=True,
            timeout=20,
        ) as stream:
            server.process.terminate()
            assert server.process.wait(timeout=20) == 0
            assert stream.status_code == 200


def test_a_client_that_goes_away_is_gone_from_the_engine():
    with running() as server:
        stream = requests.post(
            f"{server.url}/v1/chat/completions",
            json={**CHAT, "max_tokens": 30_000, "stream": True},
            stream=True,
            timeout=20,
        )
        lines = stream.iter_lines()
        next(lines)
        becomes(1.0, lambda: gauge(server, "vllm:num_requests_running"), within=10)
        stream.close()
        becomes(0.0, lambda: gauge(server, "vllm:num_requests_running"), within=10)
        assert gauge(server, "vllm:request_success_total") == 0.0


def gauge(server, name):
    page = requests.get(f"{server.url}/metrics", timeout=10).text
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"{name}{{"))


def test_the_port_closes_with_the_process_and_comes_back_when_the_model_is_loaded():
    with running("--commands") as server:
        server.say("hang")
        with requests.post(
            f"{server.url}/v1/chat/completions",
            json={**CHAT, "max_tokens": 9, "stream": True},
            stream=True,
            timeout=20,
        ) as cut:
            server.say("restart 1")
            eventually(lambda: refused(server), within=5, what="a closed port")
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                cut.content  # noqa: B018  # the connection was cut within the answer
        eventually(lambda: answers(f"{server.url}/health"), within=20, what="the next process")
        assert server.ask(max_tokens=1).status_code == 200


def test_a_server_that_loads_listens_to_nobody():
    with started("--load-s", "1.5") as server:
        assert refused(server)
        eventually(lambda: answers(f"{server.url}/health"), within=20, what="the loaded server")


def test_it_ends_with_the_program_that_commands_it():
    with running("--commands") as server:
        server.process.stdin.close()

        assert server.process.wait(timeout=20) == 0


def test_a_line_that_is_no_command_is_told_and_changes_nothing():
    with running("--commands") as server:
        server.say("explode")
        assert server.process.stdout.readline().startswith("no command 'explode'; there are slow_down, hang")
        server.say("slow_down")
        assert server.process.stdout.readline() == "slow_down takes one argument\n"
        server.say("slow_down fast")
        assert server.process.stdout.readline() == "slow_down cannot be 'fast'\n"
        assert server.ask(max_tokens=1).status_code == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--release", "1.0"), f"no known release of vLLM: 1.0; there are {', '.join(releases())}"),
        (("--release", "0.33.0", "--engine", "v0"), "vLLM 0.33.0 has no engine v0"),
        (("--max-num-seqs", "0"), "every limit is at least 1"),
        (("--max-num-queued-reqs", "-1"), "a limit of the queue is at least 0"),
        (("--max-model-len", "0"), "every limit is at least 1"),
        (("--data-parallel-size", "0"), "a server has at least one engine"),
        (("--load-s", "nan"), "a start takes 0 seconds or more"),
        (("--api-server-count", "0"), "a server has at least one API process"),
        (
            ("--release", "0.8.5", "--engine", "v0", "--data-parallel-size", "2"),
            "V0 has no data-parallel ranks",
        ),
    ],
)
def test_a_wrong_option_is_one_line(options, message, capsys):
    assert main(["--port", "0", *options]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_a_port_beyond_all_ports_is_a_wrong_option(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["--port", "65536"])
    assert "argument --port" in capsys.readouterr().err


def test_a_taken_port_is_one_line():
    with running() as server:
        port = server.url.rpartition(":")[2]
        ended = subprocess.run(
            [sys.executable, "-m", "vllm_observe.sim", "--port", port],
            capture_output=True,
            text=True,
            check=False,
        )

        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1
        assert "in use" in ended.stderr
