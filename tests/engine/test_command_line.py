from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from support.waiting import eventually
from vllm_observe.engine.address import Address
from vllm_observe.engine.command_line import CommandLineSource, command_line_of, from_command_line
from vllm_observe.model import Limits, LimitsSource


def stated(**values: int) -> Limits:
    return Limits(source=LimitsSource.COMMAND_LINE, **values)


# --- The arguments, as the parser of vLLM 0.32.0 reads them --------------------------------------


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("--max-num-seqs 8", {"max_num_seqs": 8}),
        ("--max-num-seqs=8", {"max_num_seqs": 8}),
        ("--max_num_seqs 8", {"max_num_seqs": 8}),
        ("--max_num-seqs=8", {"max_num_seqs": 8}),
        ("--max-num-seqs 8 --max-num-seqs 9", {"max_num_seqs": 9}),
        ("--max-num-batched-tokens 1.5k", {"max_num_batched_tokens": 1500}),
        ("--max-num-batched-tokens 2K", {"max_num_batched_tokens": 2048}),
        ("--max-model-len 1m", {"max_model_len": 1_000_000}),
        ("--max-model-len=25.6k", {"max_model_len": 25_600}),
        ("--max-model-len auto", {}),
        ("--max-model-len -1", {}),
        ("--block-size 16", {"block_size": 16}),
        ("--max-num-active-seqs 4", {"max_num_active_seqs": 4}),
        # Abbreviations that fit one option of vLLM's only.
        ("--max-num-seq 8", {"max_num_seqs": 8}),
        ("--max-num-a 3", {"max_num_active_seqs": 3}),
        ("--max-m 99", {"max_model_len": 99}),
        ("--block 32", {"block_size": 32}),
        ("-tp 2 --enforce-eager", {}),
    ],
)
def test_arguments_are_read_as_vllm_reads_them(arguments, values):
    argv = ["/usr/bin/python3", "/usr/local/bin/vllm", "serve", "some/model", *arguments.split()]
    assert from_command_line(argv) == stated(**values)


@pytest.mark.parametrize(
    "value", ["", "x", "0", "-8", "8.5", "1.5K", "1e3", "0x10", "9" * 20, "9" * 5000, "9999999", "8 8", "٨"]
)
def test_a_value_that_vllm_would_not_take_is_unknown(value):
    argv = ["vllm", "serve", "m", "--max-num-seqs", value, "--block-size", "16"]
    assert from_command_line(argv) == stated(block_size=16)


def test_the_last_of_repeated_flags_counts_even_where_it_says_nothing():
    argv = ["vllm", "serve", "m", "--max-model-len", "2048", "--max-model-len", "auto"]
    assert from_command_line(argv) == stated()


def test_a_flag_without_its_value_is_unknown():
    assert from_command_line(["vllm", "serve", "m", "--max-num-seqs"]) == stated()


# --- What starts a server -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        "vllm serve m",
        "/opt/venv/bin/vllm serve m",
        "/usr/bin/python3 /usr/local/bin/vllm serve m",
        "python3 -m vllm.entrypoints.openai.api_server --model m",
        "python3 -u -m vllm.entrypoints.cli.main serve m",
        "uv run vllm serve m",
        "tini -- vllm serve m",
    ],
)
def test_every_way_to_start_a_server_is_known(start):
    assert from_command_line([*start.split(), "--max-num-seqs", "8"]) == stated(max_num_seqs=8)


@pytest.mark.parametrize(
    "command",
    [
        "vllm bench serve --max-num-seqs 8",
        "vllm chat --max-num-seqs 8",
        "vllm",
        "VLLM::EngineCore",
        "python3 -m vllm.entrypoints.cli.main bench --max-num-seqs 8",
        "python3 -m http.server 8000 --max-num-seqs 8",
        "vllm serve m --headless --max-num-seqs 8",
        "vi vllm/serve.py --max-num-seqs 8",
        "",
    ],
)
def test_no_other_command_line_gives_limits(command):
    assert from_command_line(command.split()) is None
    assert from_command_line([command]) is None
    assert from_command_line([]) is None


# --- vLLM's configuration file ------------------------------------------------------------------

YAML = "max_num_seqs: 8\nmax-num-batched-tokens: 4k\nspeculative-config:\n  max_model_len: 12\nenforce-eager: true\n"


def with_config(content: str | None, *arguments: str) -> Limits | None:
    argv = ["vllm", "serve", "m", "--config", "c.yaml", *arguments]
    return from_command_line(argv, read={"c.yaml": content}.get)


def test_the_configuration_file_counts_where_no_flag_does():
    assert with_config(YAML) == stated(max_num_seqs=8, max_num_batched_tokens=4000)
    assert with_config(YAML, "--max-num-seqs", "9") == stated(max_num_seqs=9, max_num_batched_tokens=4000)
    before = ["vllm", "serve", "m", "--max-num-seqs", "9", "--config", "c.yaml"]
    assert from_command_line(before, read={"c.yaml": YAML}.get).max_num_seqs == 9


def test_a_configuration_file_in_one_word_is_overlooked_as_by_vllm():
    assert from_command_line(["vllm", "serve", "m", "--config=c.yaml"], read={"c.yaml": YAML}.get) == stated()


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "- max_num_seqs",
        "max_num_seqs",
        "max_num_seqs: [8]",
        "max_num_seqs: 8.0",
        "max_num_seqs: true",
        "max_num_seqs: {",
        "a: 2026-99-99",
        "a: !!int ''",
        "a: !!python/object/apply:os.getcwd []",
        "? [a]\n: 1",
        "{" * 2000,
        "\x00",
    ],
)
def test_a_configuration_file_that_says_nothing_leaves_the_flags(content):
    assert with_config(content, "--block-size", "16") == stated(block_size=16)


def test_without_a_reader_the_configuration_file_counts_for_nothing():
    assert from_command_line(["vllm", "serve", "m", "--config", "c.yaml"]) == stated()


# --- /proc --------------------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path):
    """Write a process into a /proc of our own."""

    def process(pid: int, command: str):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        return folder

    process.root = tmp_path
    (tmp_path / "self").mkdir()
    (tmp_path / "version").write_text("Linux")
    process(1, "tini")
    process(2, "VLLM::EngineCore")
    return process


def find(proc, port=8000):
    return CommandLineSource(port=port, proc=proc.root).read()


def test_the_server_on_the_port_is_found(proc):
    proc(7, "python3 /usr/bin/vllm serve a --max-num-seqs 8")
    proc(8, "python3 /usr/bin/vllm serve b --port 8001 --max-num-seqs 16")
    proc(9, "python3 -m vllm.entrypoints.openai.api_server --port=8002 --max-num-seqs 32")
    assert [find(proc, port).max_num_seqs for port in (8000, 8001, 8002)] == [8, 16, 32]
    assert find(proc, 8003) is None


def test_the_processes_of_this_machine_say_nothing_of_a_server_elsewhere(proc):
    proc(7, "vllm serve m --max-num-seqs 8")
    here, elsewhere = (Address.parse(f"http://{host}:8000") for host in ("127.0.0.1", "192.0.2.1"))
    assert command_line_of(here, proc=proc.root)().max_num_seqs == 8
    assert command_line_of(elsewhere, proc=proc.root)() is None


def test_a_launcher_and_its_child_are_one_server(proc):
    proc(7, "uv run vllm serve a --max-num-seqs 8")
    proc(8, "python3 /usr/bin/vllm serve a --max-num-seqs 8")
    assert find(proc) == stated(max_num_seqs=8)


def test_servers_on_one_port_that_differ_leave_the_limits_unknown(proc):
    proc(7, "vllm serve a --max-num-seqs 8")
    proc(8, "vllm serve b --max-num-seqs 9")
    assert find(proc) is None


def test_processes_that_vanish_or_are_not_ours_are_passed_over(proc):
    (proc.root / "3").mkdir()  # gone between the listing and the reading
    (proc.root / "4" / "cmdline").mkdir(parents=True)  # fails to open, as a forbidden one does
    (proc(5, "") / "cmdline").write_bytes(b"\xff\0vllm\0serve\0--port\0\xff")
    proc(7, "vllm serve a --max-num-seqs 8")
    assert find(proc) == stated(max_num_seqs=8)
    assert CommandLineSource(port=8000, proc=proc.root / "missing").read() is None


def test_the_configuration_file_is_read_as_the_process_sees_it(proc):
    absolute = proc(7, "vllm serve a --config /etc/vllm.yaml")
    (absolute / "root/etc").mkdir(parents=True)
    (absolute / "root/etc/vllm.yaml").write_text("max-num-seqs: 8\n")
    relative = proc(8, "vllm serve a --config vllm.yaml")
    (relative / "cwd").mkdir()
    (relative / "cwd/vllm.yaml").write_text("max-num-seqs: 16\nport: 8001\n")
    assert [find(proc, port).max_num_seqs for port in (8000, 8001)] == [8, 16]


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.write_text("#" * 300_000 + "\nport: 1")]
)
def test_what_is_no_configuration_file_is_not_read(proc, make):
    process = proc(7, "vllm serve a --config vllm.yaml --block-size 16")
    (process / "cwd").mkdir()
    make(process / "cwd" / "vllm.yaml")
    assert find(proc) == stated(block_size=16)


def test_a_real_process_is_found_in_the_real_proc():
    command = [
        sys.executable,
        "-c",
        "input()",
        "vllm",
        "serve",
        "m",
        "--port",
        "59871",
        "--max-num-seqs",
        "8",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        with contextlib.closing(process.stdin):
            # An exec shows an empty command line for a moment.
            found = eventually(CommandLineSource(port=59871).read, within=10, what="the process")
        process.wait(30)
    assert found == stated(max_num_seqs=8)
    assert CommandLineSource(port=59871).read() is None
