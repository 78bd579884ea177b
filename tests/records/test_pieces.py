from __future__ import annotations

from vllm_observe.records.pieces import Assembly, Piece


def part(stream: str, text: bytes) -> Piece:
    return Piece(stream, final=False, text=text)


def last(stream: str, text: bytes) -> Piece:
    return Piece(stream, final=True, text=text)


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
