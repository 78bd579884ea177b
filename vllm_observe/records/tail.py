"""One open file that grows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vllm_observe.records import cri, docker, lines
from vllm_observe.records.files import FileId, OpenFile
from vllm_observe.records.pieces import Assembled, Assembly, Piece
from vllm_observe.records.position import (
    HEAD_BYTES,
    MARK_BYTES,
    Likeness,
    Mark,
    Places,
    Position,
    mark_at,
    marks_of,
)
from vllm_observe.records.source import Line, Source, Wrapper

__all__ = ["Tail"]

#: How far back the last line's beginning is looked for, where a file is taken up at its end.
_LOOK_BACK_BYTES = 1 << 16
#: Bytes of a half line that are kept, to notice that another stands there.
_AHEAD_BYTES = 256

_SHAPES: dict[Wrapper, tuple[Callable[[bytes], Sequence[Piece]], ...]] = {
    Wrapper.AUTO: (cri.pieces, docker.pieces),
    Wrapper.CRI: (cri.pieces,),
    Wrapper.DOCKER: (docker.pieces,),
    Wrapper.NONE: (),
}


class Tail:
    """Reads whole lines from an open file, step by step.

    The offset always stands at the beginning of a line (or inside a line that was over the cap, whose
    rest is skipped). A half line is not kept: it is read again once the file has changed. So memory
    does not grow with the number of files, and a position is a number.

    Before anything is read, the bytes before the offset are compared with what they were: a file that
    was truncated and written anew is noticed, even where it has grown beyond the offset meanwhile.

    Attributes:
        offset: how many bytes are done with.
        at_end: whether the last read reached the file's end.
    """

    def __init__(self, file: OpenFile, source: Source, path: str, *, max_line: int) -> None:
        self.file = file
        self.id: FileId = file.stat().id
        self.source = source
        self.path = path
        self.offset = 0
        self.at_end = False
        self._max_line = max_line
        self._shapes = _SHAPES[source.wrapper]
        self._marks: tuple[Mark, ...] = ()
        self._places = Places()
        self._before = b""
        self._ahead = b""
        self._cut: _Cut | None = None
        self._assembly = Assembly(max_line)

    # --- Reading ---------------------------------------------------------------------------------

    def read(self, max_bytes: int) -> list[Line] | None:
        """Read the lines that begin in the next ``max_bytes``.

        Returns:
            The lines; ``None`` where the file no longer holds what was read of it.

        Raises:
            OSError: the system could not read.
        """
        known = min(MARK_BYTES, self.offset)
        content = self.file.pread(self.offset - known, known + max_bytes)
        expected = (self._before + self._ahead)[: known + max_bytes]
        if len(self._before) < known or not content.startswith(expected):
            return None
        self.at_end = len(content) < known + max_bytes
        content = content[known:]
        if self.at_end:
            content = content.rstrip(b"\0")  # space that its writer set aside and has not filled yet
        elif b"\n" not in content and max_bytes <= self._max_line:
            return self.read(self._max_line + 1)
        found = lines.cut(content, inside=self._is_inside(), max_bytes=self._max_line)
        taken = [line for raw in found.lines for line in self._unwrapped(raw)]
        self._move(content[: found.done])
        self._ahead = content[found.done :][:_AHEAD_BYTES]
        return taken

    def finish(self) -> list[Line]:
        """Read the last line where no newline or no last piece ends it, once nobody can write any more."""
        rest = self.file.pread(self.offset, self._max_line + 1).rstrip(b"\0")
        found = lines.cut(rest + b"\n", inside=self._is_inside(), max_bytes=self._max_line)
        taken = [line for raw in found.lines for line in self._unwrapped(raw)]
        self._move(rest)
        return taken + [line for made in self._assembly.give_up() if (line := self._line(made)) is not None]

    def follow_on(self, other: Tail) -> None:
        """Take over the lines whose first pieces are in the file before this one."""
        self._assembly = other.hand_over()

    def hand_over(self) -> Assembly:
        """Give away the lines whose last pieces are in another file."""
        given, self._assembly = self._assembly, Assembly(self._max_line)
        given.move()
        return given

    def _unwrapped(self, raw: lines.Raw) -> Sequence[Line]:
        start = self.offset + raw.start
        parts = self._pieces(raw.data)
        if not parts:
            return (Line(self.source, self.path, start, raw.data, raw.whole),)
        made = (self._assembly.add(part, start, whole=raw.whole) for part in parts)
        return [line for one in made if one is not None and (line := self._line(one)) is not None]

    def _pieces(self, line: bytes) -> Sequence[Piece]:
        """Read a line as pieces of others, where a wrapper of this source has such a shape."""
        return next((parts for shape in self._shapes if (parts := shape(line))), ())

    def _line(self, made: Assembled) -> Line | None:
        """Make a line of its pieces; a blank one is none, as in a file without a wrapper."""
        if made.whole and not made.text.strip():
            return None
        return Line(self.source, self.path, made.start, made.text, made.whole)

    def _is_inside(self) -> bool:
        """Say whether the offset is inside a line that was given up."""
        return self._before[-1:] not in (b"", b"\n", b"\0")

    def _move(self, done: bytes) -> None:
        self._marks = marks_of(done, self._marks, self._before, self.offset)
        self._places.add(done, self._before, self.offset)
        self._before = (self._before + done[-MARK_BYTES:])[-MARK_BYTES:]
        self.offset += len(done)

    # --- Where reading stands --------------------------------------------------------------------

    def position(self) -> Position:
        """Say how far the file was read, by its content."""
        return Position(
            path=self.path,
            device=self.id.device,
            inode=self.id.inode,
            end=mark_at(self.offset, self._before),
            marks=self._marks,
            pending=self._assembly.pending,
        )

    def restart(self) -> None:
        """Begin anew at the file's first byte."""
        self.offset = 0
        self.at_end = False
        self._marks = ()
        self._places = Places()
        self._before = b""
        self._ahead = b""
        self._cut = None
        self._assembly = Assembly(self._max_line)

    def cut_off(self, position: Position) -> None:
        """Start again, since the file no longer holds what was read of it up to this position."""
        cut = _Cut(position, self._places.marks, self._before)
        self.restart()
        self._cut = cut

    @property
    def former(self) -> Position | None:
        """What was read of the file before it was cut off."""
        return self._cut and self._cut.position

    def differs(self) -> bool:
        """Say whether the file, since it was cut off, has gained something else than it had there."""
        if self._cut is None:
            return False
        return not self._cut.before.startswith(self.file.pread(self._cut.start, len(self._cut.before)))

    def go_on(self) -> None:
        """Move behind what the file still holds of what was read of it before it was cut off.

        That is the end of one of its first lines, one of the places that were remembered, or the end
        of one of the last lines that were read. Lines between two of these may come again.
        """
        cut = self._cut
        if cut is None:
            return
        first = tuple(itertools.takewhile(self._holds, cut.position.marks))
        places = list(itertools.takewhile(self._holds, cut.places))
        end = max((mark.offset for mark in (*first[-1:], *places[-1:])), default=0)
        if first == cut.position.marks:
            now = self.file.pread(cut.start, len(cut.before))
            same = now[: now.rfind(b"\n") + 1]
            while not cut.before.startswith(same):
                same = same[: same.rfind(b"\n", 0, -1) + 1]
            end = max(end, cut.start + len(same) if same else 0)
        self._stand_at(end)
        self._marks, self._places = first, Places(places)
        if self._shapes:
            self._reassemble(max(0, end - 8 * self._max_line))

    def _holds(self, mark: Mark) -> bool:
        return mark.compare(self.file) is Likeness.WHOLE

    def resume(self, position: Position) -> None:
        """Go on after what was read of the same content earlier."""
        self._stand_at(position.end.offset)
        self._marks = position.marks
        if position.pending:
            self._reassemble(min(position.pending.values()))

    def skip_to_end(self) -> None:
        """Take the file up at the beginning of its last line, if that is a half one, else at its end."""
        size = self.file.size()
        first = max(0, size - _LOOK_BACK_BYTES)
        newline = self.file.pread(first, size - first).rfind(b"\n")
        self._stand_at(first + newline + 1 if newline >= 0 or first == 0 else size)
        self._marks = marks_of(self.file.pread(0, min(HEAD_BYTES, self.offset)), (), b"", 0)

    def _stand_at(self, offset: int) -> None:
        self.restart()
        known = min(MARK_BYTES, offset)
        self._before = self.file.pread(offset - known, known)
        self.offset = offset

    def _reassemble(self, start: int) -> None:
        """Read the pieces of unfinished lines again; what is whole among them was handed out."""
        content = self.file.pread(start, min(self.offset - start, 8 * self._max_line))
        for raw in lines.cut(content, inside=False, max_bytes=self._max_line).lines:
            for part in self._pieces(raw.data):
                self._assembly.add(part, start + raw.start, whole=raw.whole)

    def is_intact(self) -> bool:
        """Say whether the file still holds what was read of it."""
        known = len(self._before)
        return self.file.pread(self.offset - known, known) == self._before


class _Cut(NamedTuple):
    """What is known of a file that was cut off: how far it was read, and what it held there."""

    position: Position
    places: list[Mark]
    before: bytes  # the bytes before the position

    @property
    def start(self) -> int:
        """Where these bytes began."""
        return self.position.end.offset - len(self.before)
