from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from itertools import chain, repeat

import pytest
from rich.console import Console, ConsoleDimensions

from http_double import http_double, in_turn, whole
from support.looks import Looked, page, seen
from support.sidecar import PROGRAM
from support.waiting import eventually
from vllm_observe.cli import live
from vllm_observe.cli.live import keep_looking
from vllm_observe.clock import ManualClock
from vllm_observe.errors import ScrapeError, ScrapeFailure
from vllm_observe.serve.state import State

SATURATED = "vllm-0.32.0/saturated.prom"
LATER = "vllm-0.32.0/saturated-1s-later.prom"
REFUSED = ScrapeError(ScrapeFailure.CONNECTION, "sidecar at http://s: no connection")


class Told:
    """A source that tells what a test says, and then somebody presses Ctrl-C."""

    name = "told by a test"

    def __init__(
        self, *answers: State | ScrapeError, clock: ManualClock, takes: Iterable[float] = ()
    ) -> None:
        self._answers = list(answers)
        self._clock = clock
        self._takes = chain(takes, repeat(0.0))
        self.looked_at: list[float] = []

    def look(self) -> State:
        if not self._answers:
            raise KeyboardInterrupt
        self.looked_at.append(self._clock.monotonic())
        self._clock.advance(next(self._takes))
        answer = self._answers.pop(0)
        if isinstance(answer, ScrapeError):
            raise answer
        return answer


@pytest.fixture
def keep(capsys):
    def keep(*answers: State | ScrapeError, as_json: bool = False, takes: Iterable[float] = ()):
        clock = ManualClock()
        source = Told(*answers, clock=clock, takes=takes)
        code = keep_looking(source, interval=5.0, as_json=as_json, clock=clock)
        out, err = capsys.readouterr()
        assert err == ""
        return code, out, source.looked_at

    return keep


def down() -> State:
    server = Looked()
    server.sees(REFUSED)
    return server.state


def test_looks_begin_an_interval_apart_however_long_they_take(keep):
    _, _, looked_at = keep(seen(SATURATED), seen(SATURATED), seen(SATURATED), takes=[2.0, 4.0])
    assert looked_at == [0.0, 5.0, 10.0]


def test_looks_that_were_missed_are_not_made_up_for(keep):
    _, _, looked_at = keep(seen(SATURATED), seen(SATURATED), seen(SATURATED), takes=[12.0])
    assert looked_at == [0.0, 12.0, 17.0]


def test_in_a_pipe_one_report_follows_the_other(keep):
    code, out, _ = keep(seen(SATURATED), seen("vllm-0.32.0/idle.prom"))
    assert code == 0
    assert out.count("model tiny") == 2
    assert out.index("saturated: 8 of 8 slots, 16 waiting") < out.index("\nidle\n")
    assert "\x1b" not in out


def test_json_is_one_line_a_look(keep):
    _, out, _ = keep(seen(SATURATED), REFUSED, down(), as_json=True)
    looks = [json.loads(line) for line in out.splitlines()]
    assert looks[0]["engines"][0]["running"] == 8
    assert looks[1] == {"error": {"code": "connection", "message": str(REFUSED)}}
    assert looks[2]["scrape"]["success"] is False


@pytest.mark.parametrize(("last", "code"), [(seen(SATURATED), 0), (REFUSED, 1), (down(), 1)])
def test_the_exit_code_is_that_of_the_last_look(keep, last, code):
    assert keep(seen(SATURATED), REFUSED, last)[0] == code


def test_a_failure_is_shown_and_the_looking_goes_on(keep):
    _, out, _ = keep(REFUSED, seen(SATURATED))
    assert out.startswith("sidecar at http://s: no connection\n")
    assert "saturated: 8 of 8 slots, 16 waiting" in out


def test_the_programs_own_handling_of_signals_comes_back(keep):
    before = signal.getsignal(signal.SIGTERM)
    keep(seen(SATURATED))
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_view_is_drawn_on_a_clear_screen_where_the_terminal_has_another_size(monkeypatch):
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=80, height=24)
    monkeypatch.setattr(live, "Console", lambda **_: terminal)

    def drawn(width: int, height: int) -> str:
        out.truncate(out.seek(0))
        terminal.size = ConsoleDimensions(width, height)
        draw("one\ntwo")
        return out.getvalue()

    with live.redrawn() as draw:
        for size, cleared in (
            ((80, 24), False),
            ((80, 24), False),
            ((60, 24), True),
            ((60, 24), False),
            ((60, 40), True),
            ((80, 24), True),
        ):
            screen = drawn(*size)
            assert screen.startswith("\x1b[2J\x1b[H") is cleared
            assert screen.count("\x1b[2J") == cleared
            assert "one" in screen


#: Makes the terminal that is its standard input its own, so that Ctrl-C there reaches it, and runs a command.
_ON_ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """The program on a terminal of its own, 80 columns and 40 rows."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.screen = b""
        self._end, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _ON_ITS_TERMINAL, PROGRAM, *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env=os.environ | {"TERM": "xterm", "LINES": "40", "COLUMNS": "80"} | environment,
            start_new_session=True,
        )
        os.close(other)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        # Reading fails, or gives nothing, once the program has ended.
        with contextlib.suppress(OSError):
            while data := os.read(self._end, 65_536):
                self.screen += data

    def shows(self, text: bytes, *, times: int = 1) -> None:
        eventually(lambda: self.screen.count(text) >= times, within=30, what=f"{text!r} on {self.screen!r}")

    def press(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def ends(self) -> int:
        code = self.process.wait(60)
        self._reader.join(10)
        os.close(self._end)
        return code


@pytest.fixture
def watched():
    with http_double() as server:
        server.answers["/metrics"] = in_turn(whole(page(SATURATED)), whole(page(LATER)))
        yield ["status", "--vllm-url", server.url, "--max-num-seqs", "8", "--watch", "--interval", "1s"]


@pytest.mark.slow
@pytest.mark.parametrize("by_signal", [False, True])
def test_a_live_view_is_redrawn_in_place_and_stays_when_it_ends(watched, by_signal):
    terminal = Terminal(*watched)
    terminal.shows(b"until Ctrl-C", times=2)
    if by_signal:
        terminal.process.terminate()
    else:
        terminal.press(b"\x03")
    assert terminal.ends() == 0
    first, *_, last = terminal.screen.split(b"saturated: 8 of 8 slots, 16 waiting")
    assert b"\x1b[?25l" in first  # the cursor is hidden while it is drawn,
    assert last.rstrip().endswith(b"\x1b[?25h")  # and there again at the end
    assert b"Traceback" not in terminal.screen
    # Each view begins where the one before it began: so many lines up as that one has.
    views = terminal.screen.split(b"saturated: 8 of 8 slots, 16 waiting")[1:]
    assert [view.count(b"\x1b[1A") for view in views[:-1]] == [view.count(b"\r\n") for view in views[:-1]]
    if not by_signal:
        assert re.search(rb"until Ctrl-C\S* *\^C", terminal.screen)  # it has not begun a new line


@pytest.mark.slow
def test_without_colours_there_are_none(watched):
    terminal = Terminal(*watched, NO_COLOR="1")
    terminal.shows(b"until Ctrl-C")
    terminal.press(b"\x03")
    terminal.ends()
    assert not re.search(rb"\x1b\[[0-9;]*(3|4|9)[0-7]m", terminal.screen)


@pytest.mark.slow
def test_on_a_terminal_the_headline_is_coloured(watched):
    terminal = Terminal(*[word for word in watched if word != "--watch"])
    assert terminal.ends() == 0
    assert b"\x1b[1;33msaturated" in terminal.screen
