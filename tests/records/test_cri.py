from __future__ import annotations

import pytest

from vllm_observe.records.cri import Assembly, Piece, piece


def part(stream: str, text: bytes) -> Piece:
    return Piece(stream, final=False, text=text)


def last(stream: str, text: bytes) -> Piece:
    return Piece(stream, final=True, text=text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"2026-03-02T12:30:00.000000001Z stdout F text", last("stdout", b"text")),
        (b"2026-03-02T12:30:00.000000001Z stderr P te xt ", part("stderr", b"te xt ")),
        (b"2026-03-02T12:30:00+02:00 stdout F ", last("stdout", b"")),
        (b"2026-03-02T12:30:00Z stdout F", last("stdout", b"")),
        (b"2026-03-02T12:30:00Z stdout P:later:tags text", part("stdout", b"text")),
        (b"2026-03-02T12:30:00Z stdout F caf\xe9\x00", last("stdout", b"caf\xe9\x00")),
        (b'{"ts":"2026-03-02T12:30:00Z"}', None),
        (b"2026-03-02T12:30:00Z stdin F text", None),
        (b"2026-03-02T12:30:00Z stdout X text", None),
        (b"2026-03-02 12:30:00 stdout F text", None),
        (b"", None),
    ],
)
def test_a_piece_is_known_by_its_shape(line, expected):
    assert piece(line) == expected


def test_pieces_are_put_together_stream_by_stream():
    assembly = Assembly(1000)
    assert assembly.add(part("stdout", b"aa"), 0) is None
    assert assembly.add(last("stderr", b"warning"), 10).text == b"warning"
    assert assembly.add(part("stdout", b"bb"), 20) is None
    assert assembly.pending == {"stdout": 0}
    assert assembly.add(last("stdout", b"cc"), 30) == (0, b"aabbcc", True)
    assert assembly.pending == {}


def test_a_line_that_grows_over_the_cap_is_given_once_and_the_next_is_whole():
    assembly = Assembly(10)
    parts = [assembly.add(part("stdout", b"12345678"), at) for at in (0, 20, 40, 60)]
    assert parts == [None, (0, b"1234567812", False), None, None]
    assert assembly.add(last("stdout", b"the end"), 80) is None
    assert assembly.add(last("stdout", b"next"), 100) == (100, b"next", True)


def test_a_line_that_is_too_long_does_not_drop_the_other_streams():
    assembly = Assembly(10)
    assembly.add(part("stdout", b"x" * 11), 0)
    assert assembly.add(last("stderr", b"heard"), 20) == (20, b"heard", True)


def test_a_piece_that_was_itself_cut_makes_its_line_too_long():
    assembly = Assembly(10)
    assembly.add(part("stdout", b"1"), 0)
    assert assembly.add(last("stdout", b"2"), 20, whole=False) == (0, b"12", False)
    assert assembly.add(last("stdout", b"next"), 40) == (40, b"next", True)


def test_lines_that_will_not_be_finished_are_given_as_they_are():
    assembly = Assembly(10)
    assembly.add(part("stdout", b"aa"), 0)
    assembly.add(part("stderr", b"x" * 11), 20)  # over the cap, so given already
    assert assembly.give_up() == [(0, b"aa", True)]
    assert assembly.pending == {}


def test_a_line_that_goes_on_in_another_file_begins_before_it():
    assembly = Assembly(10)
    assembly.add(part("stdout", b"aa"), 700)
    assembly.move()
    assert assembly.pending == {"stdout": 0}
    assert assembly.add(last("stdout", b"bb"), 0) == (0, b"aabb", True)
