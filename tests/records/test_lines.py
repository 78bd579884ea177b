from __future__ import annotations

import pytest

from vllm_observe.records.lines import cut


def texts(content: bytes, *, inside: bool = False, max_bytes: int = 100) -> list[bytes]:
    return [line.data for line in cut(content, inside=inside, max_bytes=max_bytes).lines]


def test_a_line_is_done_when_its_newline_has_come():
    found = cut(b"one\ntwo\nthr", inside=False, max_bytes=100)
    assert [(line.start, line.data, line.whole) for line in found.lines] == [
        (0, b"one", True),
        (4, b"two", True),
    ]
    assert found.done == 8


@pytest.mark.parametrize("content", [b"", b"half", b"\n", b"\n\n", b"  \r\n"])
def test_nothing_and_blank_lines_are_no_lines(content):
    assert texts(content) == []


def test_a_carriage_return_goes_with_its_newline():
    assert texts(b"one\r\ntwo\r\n") == [b"one", b"two"]


def test_other_separators_are_part_of_a_line():
    content = "a\rb\x0b\x0c\x1c\x85\u2028c".encode()
    assert texts(content + b"\n") == [content]


def test_nul_bytes_before_a_line_are_skipped_and_their_place_is_done_with():
    found = cut(b"\0" * 500 + b"one\n" + b"\0" * 500, inside=False, max_bytes=100)
    assert [(line.data, line.whole) for line in found.lines] == [(b"one", True)]
    assert found.done == 1004


def test_a_line_over_the_cap_comes_cut_and_the_next_is_whole():
    found = cut(b"x" * 101 + b"\nnext\n", inside=False, max_bytes=100)
    assert [(line.data, line.whole) for line in found.lines] == [(b"x" * 100, False), (b"next", True)]


def test_a_line_of_just_the_cap_is_whole():
    assert cut(b"x" * 100 + b"\r\n", inside=False, max_bytes=100).lines[0].whole


def test_a_half_line_over_the_cap_is_given_up_at_once():
    found = cut(b"x" * 101, inside=False, max_bytes=100)
    assert [line.whole for line in found.lines] == [False]
    assert found.done == 101


def test_the_rest_of_a_line_that_was_given_up_is_skipped():
    assert texts(b"rest of it\nnext\n", inside=True) == [b"next"]
    assert cut(b"still the same", inside=True, max_bytes=100) == ([], 14)
