"""Whatever happens to a log, its lines come once: a state machine on a real file system."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.logs import Followed, write
from vllm_observe.records.position import Positions

PADDING = st.sampled_from((0, 0, 0, 30, 300, 5_000, 70_000))
MOST_ROTATIONS = 4


class LogUnderRotation(RuleBasedStateMachine):
    """One writer, one log, and everything that administrators do to it.

    The model is ``files``: what whole lines are in the log and in each of its rotations, plain or
    compressed. A line is owed from when it is written, and forgiven where its last copy went before
    anybody could read it: by truncation without a copy; by deletion, unless the follower had the file
    open; and by a restart, if the follower's descriptor was all that was left of its file. A kill takes
    back what was seen since progress was last kept; what then lies nowhere any more is forgiven.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = self.directory / "app.jsonl"
        self.seen: list[str] = []
        self.written: set[str] = set()
        self.owed: set[str] = set()
        self.files: dict[Path, list[str]] = {self.log: []}
        self.nameless: set[str] = set()  # lines of files that were deleted while they were open
        self.half = ""
        self.open = False  # the follower has seen the log since it was made
        self.known = False  # it has ever searched for the log, or follows all names
        self.count = 0
        self.kept: Positions | None = (
            None  # the progress that a kill leaves, and what was known and seen by it
        )
        self.known_then = False
        self.seen_then: list[str] = []
        self.kills = self.copies = 0
        self.gone = 0  # files that were said to be lost by the followers of before
        self.may_be_gone = False  # what was in a file may be nowhere any more

    @initialize(pattern=st.sampled_from(("app.jsonl", "app.jsonl*")))
    def follow(self, pattern):
        """Follow the log by its name alone, or all that its rotations are called as well."""
        self.followed = Followed(self.directory / pattern)
        self.known = self.known_then = "*" in pattern

    def teardown(self) -> None:
        self.write_lines([0])  # in a log that nobody makes anew the rotations would not be looked for
        for _ in range(3):
            self.poll()
            self.wait()
        self.poll()
        try:
            assert not self.owed - set(self.seen), "lines were lost"
            assert self.may_be_gone or not self._said_to_be_gone(), "nothing was lost"
        finally:
            self.followed.follower.close()
            shutil.rmtree(self.directory)

    @property
    def here(self) -> list[str]:
        """The whole lines in the log itself."""
        return self.files[self.log]

    def _line(self, padding: int) -> str:
        self.count += 1
        pad = f'"pad":"{"x" * padding}"'
        return f'{{{pad},"n":{self.count}}}' if padding > 1_000 else f'{{"n":{self.count},{pad}}}'

    def _wrote(self, line: str) -> None:
        self.here.append(line)
        self.written.add(line)
        self.owed.add(line)

    def _emptied(self) -> None:
        self.files[self.log] = []
        self.half = ""

    def _said_to_be_gone(self) -> int:
        return self.gone + sum(self.followed.follower.unread.values())

    def _forgive(self, lines: list[str]) -> None:
        elsewhere = {line for path, held in self.files.items() if held is not lines for line in held}
        self.owed -= set(lines) - set(self.seen) - elsewhere

    def _rotation(self, number: int) -> Path | None:
        """The rotation with this number, plain or compressed."""
        names = (self.directory / f"app.jsonl.{number}{end}" for end in ("", ".gz"))
        return next((path for path in names if path in self.files), None)

    def _shift(self) -> Path:
        """Move all rotations up by one, and the oldest of too many away; give the first one's name."""
        oldest = self._rotation(MOST_ROTATIONS)
        if oldest is not None:
            self.may_be_gone |= not set(self.files[oldest]) <= set(self.seen)
            oldest.unlink()
            self._forgive(self.files[oldest])
            del self.files[oldest]
        for number in range(MOST_ROTATIONS - 1, 0, -1):
            path = self._rotation(number)
            if path is not None:
                end = ".gz" if path.suffix == ".gz" else ""
                to = self.directory / f"app.jsonl.{number + 1}{end}"
                path.rename(to)
                self.files[to] = self.files.pop(path)
        return self.directory / "app.jsonl.1"

    # --- What the writer does ------------------------------------------------------------------------

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

    # --- What the follower does ----------------------------------------------------------------------

    @rule()
    def poll(self):
        self.seen += self.followed.poll()
        self.open = self.log.exists()
        self.known = True

    @rule()
    def poll_before_the_next_search(self):
        self.seen += [line.data.decode() for line in self.followed.follower.poll()]

    @rule()
    def wait(self):
        self.followed.clock.advance(40)

    @rule()
    def restart(self):
        self.gone = self._said_to_be_gone()
        self.followed.restart()
        self.owed -= self.nameless - set(self.seen)
        self.open = False

    @rule()
    def keep_progress(self):
        self.kept = self.followed.follower.positions()
        self.known_then, self.seen_then = self.known, list(self.seen)

    @rule()
    def kill(self):
        self.kills += 1
        self.gone = self._said_to_be_gone()
        self.followed.killed(self.kept)
        self.seen, self.known, self.open = list(self.seen_then), self.known_then, False
        there = self.files.values() if self.known else [self.here]
        self.owed &= {line for held in there for line in held} | set(self.seen)

    # --- What administrators do ----------------------------------------------------------------------

    @precondition(lambda self: self.log.exists())
    @rule()
    def rotate(self):
        to = self._shift()
        if not self.known:
            self._forgive(self.here)
        self.log.rename(to)
        self.files[to] = self.here
        self._emptied()
        self.open = False

    @precondition(lambda self: self.log.exists())
    @rule(polled=st.booleans())
    def copy_and_truncate(self, polled):
        to = self._shift()
        shutil.copyfile(self.log, to)
        self.files[to] = self.here
        if polled:
            self.poll()
        write(self.log, "", mode="w")
        if not self.known:
            self.owed -= set(self.here) - set(self.seen)
        self._emptied()

    @rule(number=st.integers(1, MOST_ROTATIONS), polled=st.booleans())
    def compress(self, number, polled):
        path = self._rotation(number)
        if path is None or path.suffix == ".gz":
            return
        stat = path.stat()
        archive = path.with_name(path.name + ".gz")
        content = gzip.compress(path.read_bytes())
        if polled:
            archive.write_bytes(content[: len(content) // 2])
            self.poll()
        archive.write_bytes(content)
        os.utime(archive, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        if polled:
            self.poll()
        path.unlink()
        self.files[archive] = self.files.pop(path)

    @precondition(lambda self: self.log.exists())
    @rule()
    def delete(self):
        self.may_be_gone = True
        self.log.unlink()
        if self.open:
            self.nameless |= set(self.here)
        else:
            self._forgive(self.here)
        self._emptied()
        self.open = False

    @precondition(lambda self: self.log.exists())
    @rule()
    def truncate(self):
        self.may_be_gone = True
        self._forgive(self.here)
        write(self.log, "", mode="w")
        self._emptied()

    # Up to a megabyte every line end is known, to within four kilobytes. After a kill what was read of the
    # log may have been a copy.
    @precondition(lambda self: self.log.exists() and sum(map(len, self.here)) < 3_000)
    @precondition(lambda self: not self.copies or not self.kills)
    @rule(gone=st.integers(0, 8), polled=st.booleans(), padding=PADDING)
    def cut_down_to_a_part_and_go_on(self, gone, polled, padding):
        self.poll()
        self.may_be_gone = True
        self.files[self.log] = self.here[: max(0, len(self.here) - gone)]
        os.truncate(self.log, sum(len(line) + 1 for line in self.here))
        self.half = ""
        if polled:
            self.poll()
        self.write_lines([padding])
        self.poll()
        self.keep_progress()  # from what was read before, lines that it still holds would come again

    @rule(padding=PADDING)
    def copy_slowly_while_it_is_written(self, padding):
        self.write_lines([padding])
        content = self.log.read_bytes()
        copy = self.directory / f"app.jsonl.s{self.count}"
        copy.touch()
        self.copies += 1
        self.poll()
        copy.write_bytes(content[: len(content) // 2])
        self.poll()
        self.write_lines([padding])
        copy.write_bytes(content if padding else self.log.read_bytes())  # before or after the last write
        self.poll()

    @precondition(lambda self: self.log.exists() and not self.log.is_symlink())
    @rule()
    def put_a_link_in_its_place(self):
        self.may_be_gone = True  # to where the link leads no rotation's name does
        target = self.directory / f"target-{self.count}-{len(list(self.directory.iterdir()))}"
        self.log.rename(target)
        self.log.symlink_to(target)

    @invariant()
    def every_line_comes_once(self):
        whole = [line for line in self.seen if line in self.written]
        assert len(whole) == len(set(whole)), "a line came twice"


LogUnderRotation.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLogUnderRotation = LogUnderRotation.TestCase
