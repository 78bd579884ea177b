from __future__ import annotations

import pytest

from vllm_observe.records.cri import pieces
from vllm_observe.records.pieces import Piece


def part(stream: str, text: bytes) -> Piece:
    return Piece(stream, final=False, text=text)


def last(stream: str, text: bytes) -> Piece:
    return Piece(stream, final=True, text=text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"2026-03-02T12:30:00.000000001Z stdout F text", (last("stdout", b"text"),)),
        (b"2026-03-02T12:30:00.000000001Z stderr P te xt ", (part("stderr", b"te xt "),)),
        (b"2026-03-02T12:30:00+02:00 stdout F ", (last("stdout", b""),)),
        (b"2026-03-02T12:30:00Z stdout F", (last("stdout", b""),)),
        (b"2026-03-02T12:30:00Z stdout P:later:tags text", (part("stdout", b"text"),)),
        (b"2026-03-02T12:30:00Z stdout F caf\xe9\x00", (last("stdout", b"caf\xe9\x00"),)),
        (b'{"ts":"2026-03-02T12:30:00Z"}', ()),
        (b"2026-03-02T12:30:00Z stdin F text", ()),
        (b"2026-03-02T12:30:00Z stdout X text", ()),
        (b"2026-03-02 12:30:00 stdout F text", ()),
        (b"", ()),
    ],
)
def test_a_piece_is_known_by_its_shape(line, expected):
    assert pieces(line) == expected
