from __future__ import annotations

import pytest

from vllm_observe.records.files import OsFiles
from vllm_observe.records.source import Source, Wrapper
from vllm_observe.records.tail import Tail


@pytest.fixture
def make(tmp_path):
    """Open a tail of one file; written anew each time that bytes are given."""
    path = tmp_path / "app.log"
    tails = []

    def made(
        content: bytes | None = None, *, max_line: int = 1 << 20, wrapper: Wrapper = Wrapper.AUTO
    ) -> Tail:
        if content is not None:
            path.write_bytes(content)
        tails.append(
            Tail(OsFiles().open(str(path)), Source(str(path), wrapper=wrapper), "x", max_line=max_line)
        )
        return tails[-1]

    made.path = path
    yield made
    for tail in tails:
        tail.file.close()


def texts(lines):
    return [line.data for line in lines]


def test_a_line_longer_than_one_reading_is_read_whole(make):
    tail = make(b"x" * 5000 + b"\nnext\n")
    assert texts(tail.read(100)) == [b"x" * 5000, b"next"]


def test_where_a_line_begins_is_told(make):
    tail = make(b"one\n\ntwo\n")
    assert [line.start for line in tail.read(100)] == [0, 5]


def test_space_that_is_not_written_yet_waits(make):
    tail = make(b"one\n" + b"\0" * 1000)
    assert texts(tail.read(10_000)) == [b"one"]
    with make.path.open("r+b") as file:
        file.seek(4)
        file.write(b"two\n")
    assert texts(tail.read(10_000)) == [b"two"]


def test_what_was_written_over_is_noticed_even_where_the_file_grew(make):
    tail = make(b"one\ntwo\n")
    tail.read(100)
    make.path.write_bytes(b"other lines\nand more of them\n")
    assert tail.read(100) is None
    tail.restart()
    assert texts(tail.read(100)) == [b"other lines", b"and more of them"]


def test_a_file_taken_up_at_its_end_begins_with_its_last_half_line(make):
    tail = make(b"old\nhalf")
    tail.skip_to_end()
    make.path.write_bytes(b"old\nhalf and whole\n")
    assert texts(tail.read(100)) == [b"half and whole"]


def test_a_file_taken_up_at_its_end_may_be_one_half_line(make):
    tail = make(b"half")
    tail.skip_to_end()
    make.path.write_bytes(b"half and whole\n")
    assert texts(tail.read(100)) == [b"half and whole"]


def test_a_file_that_was_truncated_while_it_was_taken_up_is_noticed(make):
    first = make(b"one\n" * 100)
    first.read(1000)
    second = make(b"one\n")
    second.resume(first.position())
    assert second.read(1000) is None


def test_a_file_taken_up_inside_an_endless_line_skips_it(make):
    tail = make(b"x" * 100_000)
    tail.skip_to_end()
    with make.path.open("ab") as file:
        file.write(b"xxx\nnext\n")
    assert texts(tail.read(100)) == [b"next"]


def test_the_last_line_needs_no_newline_when_nobody_will_write_it(make):
    tail = make(b"one\ntwo")
    assert texts(tail.read(100)) == [b"one"]
    assert texts(tail.finish()) == [b"two"]


def test_pieces_of_an_unfinished_line_are_read_again_after_a_restart(make):
    stamp = b"2026-03-02T12:30:00Z "
    first = make(stamp + b"stdout P aa\n" + stamp + b"stderr F heard\n" + stamp + b"stdout P bb\n")
    assert texts(first.read(1000)) == [b"heard"]
    second = make()
    second.resume(first.position())
    with make.path.open("ab") as file:
        file.write(stamp + b"stdout F cc\n")
    assert texts(second.read(1000)) == [b"aabbcc"]


def test_a_wrapper_can_be_left_on(make):
    line = b"2026-03-02T12:30:00Z stdout F text"
    assert texts(make(line + b"\n", wrapper=Wrapper.NONE).read(100)) == [line]
    assert texts(make(line + b"\n", wrapper=Wrapper.CRI).read(100)) == [b"text"]


@pytest.mark.parametrize("blank", [b"", b" ", b" \t  "])
def test_a_blank_line_is_none_in_a_wrapper_either(make, blank):
    stamp = b"2026-03-02T12:30:00Z stdout"
    content = stamp + b" F " + blank + b"\n" + stamp + b" F text\n" + stamp + b" F\n"
    pieces = stamp + b" P " + blank + b"\n" + stamp + b" F " + blank + b"\n"
    assert texts(make(content + pieces).read(1000)) == [b"text"]
