"""Whatever happens to a log, its lines come once: a state machine on a real file system."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.logs import Followed, write

PADDING = st.sampled_from((0, 0, 0, 30, 300, 5_000, 70_000))


class LogUnderRotation(RuleBasedStateMachine):
    """One writer, one log, and everything that administrators do to it.

    A line is owed when nothing could have destroyed it before it was read: what is in a file that the
    follower has open can be lost by truncation alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = self.directory / "app.jsonl"
        self.followed = Followed(self.directory / "app.jsonl*")
        self.seen: list[str] = []
        self.written: set[str] = set()
        self.owed: set[str] = set()
        self.here: list[str] = []  # whole lines in the log itself
        self.half = ""
        self.open = False  # the follower has seen the log since it was made
        self.count = 0

    def teardown(self) -> None:
        for _ in range(4):
            self.poll()
        try:
            assert not self.owed - set(self.seen), "lines were lost"
        finally:
            self.followed.follower.close()
            shutil.rmtree(self.directory)

    def _line(self, padding: int) -> str:
        self.count += 1
        pad = f'"pad":"{"x" * padding}"'
        return f'{{{pad},"n":{self.count}}}' if padding > 1_000 else f'{{"n":{self.count},{pad}}}'

    def _wrote(self, line: str) -> None:
        self.here.append(line)
        self.written.add(line)
        self.owed.add(line)

    @rule(paddings=st.lists(PADDING, min_size=1, max_size=12))
    def write_lines(self, paddings):
        if self.half:
            self.finish_line()
        lines = [self._line(padding) for padding in paddings]
        write(self.log, "".join(f"{line}\n" for line in lines))
        for line in lines:
            self._wrote(line)

    @precondition(lambda self: not self.half)
    @rule(padding=PADDING)
    def write_half_a_line(self, padding):
        line = self._line(padding)
        write(self.log, line[:-4])
        self.half = line

    @precondition(lambda self: self.half)
    @rule()
    def finish_line(self):
        write(self.log, self.half[-4:] + "\n")
        self._wrote(self.half)
        self.half = ""

    @rule()
    def poll(self):
        self.seen += self.followed.poll()
        self.open = self.log.exists()

    @rule()
    def poll_before_the_next_search(self):
        self.seen += [line.data.decode() for line in self.followed.follower.poll()]

    @rule()
    def wait(self):
        self.followed.clock.advance(40)

    @rule()
    def restart(self):
        self.followed.restart()
        # What was in a file without a name, and not yet read, is gone with its last descriptor.
        self.owed &= {*self.seen, *self.here}
        self.open = False

    @precondition(lambda self: self.log.exists())
    @rule()
    def rename(self):
        self.log.rename(self.directory / f"app.jsonl.{self.count}-{len(list(self.directory.iterdir()))}")
        self._made_anew()

    @precondition(lambda self: self.log.exists())
    @rule()
    def delete(self):
        self.log.unlink()
        if not self.open:
            self._forgive()
        self._made_anew()

    @precondition(lambda self: self.log.exists())
    @rule()
    def truncate(self):
        self._forgive()
        write(self.log, "", mode="w")
        self.here = []
        self.half = ""

    # Within the last bytes that were read every line end is known.
    @precondition(lambda self: self.log.exists() and sum(map(len, self.here)) < 3_000)
    @rule(gone=st.integers(0, 8), polled=st.booleans(), padding=PADDING)
    def cut_down_to_a_part_and_go_on(self, gone, polled, padding):
        self.poll()
        self.here = self.here[: max(0, len(self.here) - gone)]
        os.truncate(self.log, sum(len(line) + 1 for line in self.here))
        self.half = ""
        if polled:
            self.poll()
        self.write_lines([padding])
        self.poll()

    @precondition(lambda self: self.log.exists())
    @rule(polled=st.booleans())
    def copy_and_truncate(self, polled):
        copy = self.directory / f"app.jsonl.c{self.count}-{len(list(self.directory.iterdir()))}"
        shutil.copyfile(self.log, copy)
        if polled:
            self.poll()
        write(self.log, "", mode="w")
        self.here = []
        self.half = ""

    @rule(padding=PADDING)
    def copy_slowly_while_it_is_written(self, padding):
        self.write_lines([padding])
        content = self.log.read_bytes()
        copy = self.directory / f"app.jsonl.s{self.count}"
        copy.touch()
        self.poll()
        copy.write_bytes(content[: len(content) // 2])
        self.poll()
        self.write_lines([padding])
        copy.write_bytes(content if padding else self.log.read_bytes())  # before or after the last write
        self.poll()

    def _forgive(self) -> None:
        self.owed -= set(self.here) - set(self.seen)

    def _made_anew(self) -> None:
        self.here = []
        self.half = ""
        self.open = False

    @invariant()
    def every_line_comes_once(self):
        whole = [line for line in self.seen if line in self.written]
        assert len(whole) == len(set(whole)), "a line came twice"


LogUnderRotation.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLogUnderRotation = LogUnderRotation.TestCase
