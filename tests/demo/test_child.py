from __future__ import annotations

import contextlib
import socket
import subprocess
import sys

import pytest

from support.waiting import eventually
from vllm_observe.demo.child import Child, ChildEndedError, Ports, python

ECHO = "import sys\nfor line in sys.stdin: print('heard', line, end='', flush=True)"


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@contextlib.contextmanager
def taken():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def free() -> int:
    with taken() as port:
        return port


def test_a_port_that_is_taken_is_replaced_and_a_free_one_is_kept():
    usual = free()
    with taken() as port, Ports() as ports:
        assert ports.take(port) != f"127.0.0.1:{port}"
        assert ports.take(usual) == f"127.0.0.1:{usual}"


def test_no_port_is_given_twice_though_nobody_listens_yet():
    usual = free()
    with Ports() as one, Ports() as other:
        assert len({one.take(usual), one.take(usual), other.take(usual), other.take(usual)}) == 4


def test_a_port_is_given_again_when_the_demo_that_had_it_is_over():
    usual = free()
    with Ports() as ports:
        first = ports.take(usual)
    with Ports() as ports:
        assert ports.take(usual) == first


def test_demos_in_two_processes_do_not_get_the_same_port():
    usual = free()
    other = f"from vllm_observe.demo.child import Ports\nwith Ports() as ports: print(ports.take({usual}))"
    with Ports() as ports:
        ours = ports.take(usual)
        theirs = subprocess.run(program(other), capture_output=True, text=True, check=True).stdout.strip()
    assert ours == f"127.0.0.1:{usual}"
    assert theirs.startswith("127.0.0.1:")
    assert theirs != ours


def test_a_child_is_told_things_and_says_things(tmp_path):
    with Child("echo", program(ECHO), tmp_path) as child:
        assert child.said() is None
        child.tell("this")
        assert eventually(child.said, within=10, what="an answer") == "heard this"
        child.check()


def test_a_child_that_ends_is_told_with_its_last_words(tmp_path):
    code = "import sys; [print(number, file=sys.stderr) for number in range(9)]; sys.exit(3)"
    with Child("quitter", program(code), tmp_path) as child:

        def ended():
            with contextlib.suppress(ChildEndedError):
                return child.check()
            return True

        eventually(ended, within=10, what="its end")
        child.tell("nobody listens")
        with pytest.raises(ChildEndedError, match="quitter ended with exit code 3") as caught:
            child.check()
    assert caught.value.log == "4\n5\n6\n7\n8"


def test_a_child_that_does_not_want_to_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("vllm_observe.demo.child._END_WITHIN_S", 0.2)
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    with Child("stubborn", program(stubborn), tmp_path) as child:
        eventually(child.said, within=10, what="its start")
    with pytest.raises(ChildEndedError, match="-9"):
        child.check()


def test_signals_that_the_demo_holds_back_reach_its_children(tmp_path):
    held = (
        "import signal, sys; from pathlib import Path; from vllm_observe.demo.child import Child\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        f"with Child('child', [sys.executable, '-c', 'import time; time.sleep(60)'], Path({str(tmp_path)!r})) as one:\n"
        "    one.end(); print(one._process.wait(20))"
    )
    assert subprocess.run(program(held), capture_output=True, text=True, check=True).stdout == "-15\n"


def test_settings_of_the_environment_do_not_reach_a_child(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_OBSERVE_VLLM_URL", "http://elsewhere")
    code = "import os; print([name for name in os.environ if name.startswith('VLLM_OBSERVE')], flush=True)"
    with Child("lister", program(code), tmp_path) as child:
        assert eventually(child.said, within=10, what="its list") == "[]"


def test_the_app_ends_with_its_input_before_and_after_it_has_begun(tmp_path):
    with taken() as port:
        for lines in ("", f"http://127.0.0.1:{port}\n"):
            done = subprocess.run(
                python("vllm_observe.demo.app", "steady", tmp_path / "app.jsonl"),
                input=lines,
                text=True,
                capture_output=True,
                timeout=30,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
