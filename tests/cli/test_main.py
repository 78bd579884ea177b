from __future__ import annotations

import subprocess
import sys

import pytest

import vllm_observe.cli
from vllm_observe import __version__
from vllm_observe.cli import main
from vllm_observe.errors import ConfigError, VllmObserveError


def test_the_version_is_told(run):
    assert run("--version") == (0, f"vllm-observe {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_names_the_commands(run, arguments):
    ran = run(*arguments)
    assert "exporter" in ran.out
    assert "status" in ran.out
    assert ran.err == ""


def test_no_command_is_wrong_use(run):
    assert run().code == 2
    assert run("--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "No such option: --nope (see vllm-observe --help)"),
        (["stauts"], "No such command 'stauts'"),
        (["status", "--nope"], "No such option: --nope (see vllm-observe status --help)"),
        (["status", "--vllm-url"], "'--vllm-url' requires an argument"),
        (["status", "here"], "(here)"),
        (["status", "--max-num-seqs", "0"], "--max-num-seqs"),
        (["exporter", "--max-num-seqs", "many"], "--max-num-seqs"),
    ],
)
def test_wrong_use_is_one_line_and_code_2(run, monkeypatch, arguments, message):
    monkeypatch.setattr(sys, "argv", ["vllm-observe"])
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("vllm-observe: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "err"),
    [
        (ConfigError("--listen is wrong"), 2, "vllm-observe: --listen is wrong\n"),
        (VllmObserveError("it is down"), 1, "vllm-observe: it is down\n"),
        (VllmObserveError("two\nlines"), 1, "vllm-observe: two lines\n"),
        (VllmObserveError("\x1b[2Jgone"), 1, "vllm-observe: \\x1b[2Jgone\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_its_code(run, monkeypatch, error, code, err):
    def fails(**_: object) -> None:
        raise error

    monkeypatch.setattr(vllm_observe.cli, "app", fails)
    assert run("status") == (code, "", err)


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
    def fails(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(vllm_observe.cli, "app", fails)
    with pytest.raises(ZeroDivisionError):
        main(["status"])


def test_the_program_is_installed_under_its_name():
    program = [sys.executable, "-m", "vllm_observe", "--version"]
    assert subprocess.run(program, check=True, capture_output=True, text=True).stdout.startswith(
        "vllm-observe "
    )
