"""The text of a gzip file, as if it lay there plain.

So everything that is known about plain files holds for compressed ones: they are recognised by their
text, and read on from any place in it.
"""

from __future__ import annotations

import errno
import zlib
from bisect import bisect_right
from typing import TYPE_CHECKING

from vllm_observe.records.files import FileStat, OpenFile

if TYPE_CHECKING:
    Inflater = zlib._Decompress  # noqa: SLF001  # at run time the class has no name

__all__ = ["GZIP_MAGIC", "Gunzipped", "text_of"]

GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_WINDOW = 31  # zlib's word for: a gzip header, a checksum, and any window
#: Text that one file may hold. A thousandth of it can be enough to hold it all.
_MOST_TEXT_BYTES = 1 << 32
#: Text that is passed over in one go: a tenth of a second. More than lies between two places, so that
#: going back to any text is one go.
_STEP_BYTES = 1 << 25
#: Text between two places to which one can go back. Each costs 40 KB.
_BETWEEN_BYTES = 1 << 24
_INPUT_BYTES, _OUTPUT_BYTES = 1 << 16, 1 << 18


def text_of(file: OpenFile) -> OpenFile:
    """Give the text of a file: inflated if it is a gzip file now, else as it lies there."""
    if isinstance(file, Gunzipped) or file.pread(0, len(GZIP_MAGIC)) != GZIP_MAGIC:
        return file
    return Gunzipped(file)


class Gunzipped:
    """A gzip file of any number of members, which does not change any more.

    What is far ahead takes several goes: until it is reached :class:`BlockingIOError` is raised, and
    whoever asks again comes nearer. Memory is bounded, whatever the file inflates to.

    Attributes:
        raw: the file as it lies there.
        damage: why the text ends before the file's end; ``None`` unless that was found.
    """

    def __init__(self, raw: OpenFile) -> None:
        self.raw = raw
        self.damage: str | None = None
        self._size: int | None = None  # of the text, once its end was seen
        self._at = _Place(0, 0, _inflater())
        self._places = [_Place(0, 0, _inflater())]
        self._held = b""  # the text just before where we are: a reader goes on in what it read last

    def stat(self) -> FileStat:
        """Look at the compressed file."""
        return self.raw.stat()

    def size(self) -> int:
        """Say how many bytes the text has.

        Raises:
            BlockingIOError: it is long, and its end not reached yet.
        """
        if self._size is None:
            self.pread(_MOST_TEXT_BYTES, 1)
        return self._at.text if self._size is None else self._size

    def pread(self, offset: int, size: int) -> bytes:
        """Read up to so many bytes of the text at an offset; fewer only at its end.

        Raises:
            BlockingIOError: the offset is far ahead, and not reached yet.
        """
        held_from = self._at.text - len(self._held)
        parts = [self._held[offset - held_from :]] if held_from <= offset <= self._at.text else []
        if not parts and not self._go_to(offset):
            return b""
        missing = size - sum(map(len, parts))
        while missing > 0 and (text := self._inflate(missing)):
            parts.append(text)
            missing -= len(text)
        self._held = b"".join(parts)
        return self._held[:size]

    def close(self) -> None:
        """Give the descriptor back."""
        self.raw.close()

    def _go_to(self, offset: int) -> bool:
        """Stand at an offset of the text; say whether the text reaches so far."""
        self._held = b""
        if self._size is not None and offset > self._size:
            return False
        nearest = self._places[bisect_right(self._places, offset, key=lambda place: place.text) - 1]
        if not nearest.text <= self._at.text <= offset:
            self._at = nearest.copy()
        goal = min(offset, self._at.text + _STEP_BYTES)
        while self._at.text < goal:
            if not self._inflate(goal - self._at.text):
                return False
        if goal < offset:
            raise BlockingIOError(errno.EAGAIN, "a compressed file is being inflated")
        return True

    def _inflate(self, most: int) -> bytes:
        """Go on by some text, at most so many bytes; none at the text's end."""
        at, size = self._at, _INPUT_BYTES
        while at.text != self._size:
            if at.text >= _MOST_TEXT_BYTES:
                return self._end("too long")
            content = self.raw.pread(at.raw, size)
            before = at.inflater.copy()
            try:
                text = at.inflater.decompress(content, min(most, _OUTPUT_BYTES, _MOST_TEXT_BYTES - at.text))
            except zlib.error:
                if size == 1:
                    return self._end("damaged")
                at.inflater, size = before, size // 2  # what comes before the damage is text yet
                continue
            at.raw += len(content) - len(at.inflater.unconsumed_tail) - len(at.inflater.unused_data)
            at.text += len(text)
            if at.inflater.eof:
                at.inflater = _inflater()
                if self.raw.pread(at.raw, len(GZIP_MAGIC)) != GZIP_MAGIC:  # else another member follows
                    self._size = at.text
            elif not content and not text:
                return self._end("cut short")
            if at.text - self._places[-1].text >= _BETWEEN_BYTES:
                self._places.append(at.copy())
            if text:
                return text
        return b""

    def _end(self, damage: str) -> bytes:
        self.damage, self._size = damage, self._at.text
        return b""


class _Place:
    """A place in the text, from which inflating goes on."""

    def __init__(self, text: int, raw: int, inflater: Inflater) -> None:
        self.text = text
        self.raw = raw
        self.inflater = inflater

    def copy(self) -> _Place:
        return _Place(self.text, self.raw, self.inflater.copy())


def _inflater() -> Inflater:
    return zlib.decompressobj(_GZIP_WINDOW)
