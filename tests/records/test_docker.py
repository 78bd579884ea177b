from __future__ import annotations

import json

import pytest

from support.logs import Followed, write
from vllm_observe.records.docker import pieces
from vllm_observe.records.pieces import Piece
from vllm_observe.records.source import Source, Wrapper

TIME = "2026-03-02T12:30:00.000000001Z"


def entry(text: str, stream: str = "stdout") -> str:
    """Write what Docker's json-file driver does: no spaces, and these three names in this order."""
    return json.dumps({"log": text, "stream": stream, "time": TIME}, separators=(",", ":"))


def part(text: bytes, stream: str = "stdout") -> Piece:
    return Piece(stream, final=False, text=text)


def last(text: bytes, stream: str = "stdout") -> Piece:
    return Piece(stream, final=True, text=text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (entry("text\n"), [last(b"text")]),
        (entry("text\n", "stderr"), [last(b"text", "stderr")]),
        (entry(" te xt "), [part(b" te xt ")]),
        (entry("\n"), [last(b"")]),
        (entry('{"a":"\\u00e9"}\n'), [last(b'{"a":"\\u00e9"}')]),
        (entry("caf\u00e9 \U0001f600\n"), [last("caf\u00e9 \U0001f600".encode())]),
        (entry("one}\n{two"), [last(b"one}"), part(b"{two")]),
        (entry("one}\n{two}\n"), [last(b"one}"), last(b"{two}")]),
        (
            '{"log":"x\\n","stream":"stdout","attrs":{"tag":"web"},"time":"' + TIME + '"}',
            [last(b"x")],
        ),
        ('{"log":"x\\n","stream":"stdin","time":"' + TIME + '"}', []),
        ('{"log":"x\\n","stream":"stdout"}', []),
        ('{"log":"x\\n","stream":"stdout","time":"' + TIME + '","status":200}', []),
        ('{"log":{"a":1},"stream":"stdout","time":"' + TIME + '"}', []),
        ('{"log":"\\ud800","stream":"stdout","time":"' + TIME + '"}', []),
        ('{"log":' + "[" * 100_000, []),
        ('{"log":', []),
        ('{"ts":1,"log":"x"}', []),
        ("", []),
    ],
)
def test_a_piece_is_known_by_its_shape(line, expected):
    assert list(pieces(line.encode())) == expected


@pytest.mark.parametrize("wrapper", [Wrapper.DOCKER, Wrapper.AUTO])
def test_each_line_of_an_entry_is_one(tmp_path, wrapper):
    log = tmp_path / "0123abcd-json.log"
    followed = Followed(Source(str(log), wrapper=wrapper))
    write(log, entry('{"a":1}\r\n{"b":2}\n\n{"c":') + "\n" + entry("heard\n", "stderr") + "\n")
    assert followed.poll() == ['{"a":1}', '{"b":2}', "heard"]
    followed.restart()
    write(log, entry('3}\n{"d":4}\n') + "\n")
    assert followed.poll() == ['{"c":3}', '{"d":4}']
    followed.follower.close()


@pytest.mark.parametrize("wrapper", [Wrapper.DOCKER, Wrapper.AUTO])
def test_pieces_of_sixteen_kilobytes_are_one_line(tmp_path, wrapper):
    log = tmp_path / "0123abcd-json.log"
    followed = Followed(Source(str(log), wrapper=wrapper))
    line = "".join(f"{number}," for number in range(10_000))
    pieces = [line[at : at + 16_384] for at in range(0, len(line), 16_384)]
    for text in pieces[:-1]:
        write(log, entry(text) + "\n")
        write(log, entry("heard\n", "stderr") + "\n")
    assert followed.poll() == ["heard"] * (len(pieces) - 1)
    followed.restart()
    write(log, entry(pieces[-1] + "\n") + "\n")
    assert followed.poll() == [line]
    followed.follower.close()


def test_a_line_goes_on_through_dockers_own_rotation(tmp_path):
    log = tmp_path / "0123abcd-json.log"
    followed = Followed(log)
    write(log, entry("one\n") + "\n" + entry("aa") + "\n")
    assert followed.poll() == ["one"]
    log.rename(tmp_path / "0123abcd-json.log.1")
    write(log, entry("bb\n") + "\n")
    assert followed.poll() == ["aabb"]
    followed.follower.close()


@pytest.mark.parametrize("wrapper", [Wrapper.CRI, Wrapper.NONE])
def test_another_wrapper_leaves_it_on(tmp_path, wrapper):
    log = tmp_path / "app.log"
    followed = Followed(Source(str(log), wrapper=wrapper))
    write(log, entry("one\n") + "\n")
    assert followed.poll() == [entry("one\n")]
    followed.follower.close()
