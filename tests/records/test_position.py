from __future__ import annotations

import msgspec
import pytest

from vllm_observe.records.files import OsFiles
from vllm_observe.records.position import HEAD_BYTES, Likeness, Position
from vllm_observe.records.source import Source
from vllm_observe.records.tail import Tail

FILES = OsFiles()


def records(first: int, count: int, padding: int = 300) -> bytes:
    return b"".join(b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * padding) for n in range(first, first + count))


def position_after(path, content: bytes) -> Position:
    path.write_bytes(content)
    tail = Tail(FILES.open(str(path)), Source(str(path)), str(path), max_line=1 << 20)
    while not tail.at_end:
        tail.read(10_000)
    tail.file.close()
    return tail.position()


def likeness(position: Position, path, content: bytes) -> Likeness:
    path.write_bytes(content)
    file = FILES.open(str(path))
    try:
        return position.compare(file, content[:HEAD_BYTES])
    finally:
        file.close()


@pytest.mark.parametrize("count", [1, 3, 8, 9, 40, 400])
def test_a_file_that_holds_all_that_was_read_is_the_same_whatever_follows(tmp_path, count):
    position = position_after(tmp_path / "a", records(0, count))
    assert likeness(position, tmp_path / "b", records(0, count)) is Likeness.WHOLE
    assert likeness(position, tmp_path / "b", records(0, count) + b'{"half') is Likeness.WHOLE
    assert likeness(position, tmp_path / "b", records(0, count + 5)) is Likeness.WHOLE


@pytest.mark.parametrize("shorter", [1, 2, 7, 9, 30, 399])
def test_a_file_that_ends_before_is_a_part(tmp_path, shorter):
    position = position_after(tmp_path / "a", records(0, 400))
    assert likeness(position, tmp_path / "b", records(0, shorter)) is Likeness.PART
    assert likeness(position, tmp_path / "b", records(0, shorter)[:-40]) is Likeness.PART


@pytest.mark.parametrize("shared", [0, 1, 3])
@pytest.mark.parametrize("own", [1, 3, 100])
@pytest.mark.parametrize("padding", [0, 299, 5_000])
def test_files_that_share_their_first_lines_are_different(tmp_path, shared, own, padding):
    position = position_after(tmp_path / "a", records(0, 50))
    other = records(0, shared) + records(1000, own, padding)
    assert likeness(position, tmp_path / "b", other) is Likeness.DIFFERENT


def test_files_whose_first_lines_differ_late_are_different(tmp_path):
    prompt = b'{"system":"%s","n":' % (b"x" * 100_000)
    position = position_after(tmp_path / "a", prompt + b"1}\n")
    assert likeness(position, tmp_path / "b", prompt + b"2}\n") is Likeness.DIFFERENT
    assert likeness(position, tmp_path / "b", prompt + b"2}\n" * 9) is Likeness.DIFFERENT


def test_a_position_can_be_written_down_and_holds_nothing_of_the_log(tmp_path):
    position = position_after(tmp_path / "a", b'{"secret":"hunter2"}\n' * 20)
    written = msgspec.json.encode(position)
    assert b"hunter2" not in written
    assert msgspec.json.decode(written, type=Position) == position
    assert len(written) < 1000
