from __future__ import annotations

from pathlib import Path

import pytest

from vllm_observe.records.files import OsFiles
from vllm_observe.records.recognise import Finding, Origin, recognise
from vllm_observe.records.source import Source
from vllm_observe.records.tail import Tail

ONE, TWO, THREE = (b'{"n":%d,"pad":"%s"}\n' % (number, b"x" * 300) for number in (1, 2, 3))


@pytest.fixture
def read(tmp_path):
    """Open a file with some content, of which so many bytes are read."""
    made = []

    def open_and_read(content: bytes, upto: int | None = None) -> Tail:
        path = tmp_path / str(len(made))
        path.write_bytes(content)
        tail = Tail(OsFiles().open(str(path)), Source(str(path)), str(path), max_line=1 << 20)
        made.append(tail)
        if upto != 0:
            tail.read(len(content) + 1 if upto is None else upto)
        return tail

    yield open_and_read
    for tail in made:
        tail.file.close()


@pytest.fixture
def find(read):
    """Recognise a file with some content beside what was read."""

    def recognised(content: bytes, others=(), pasts=()) -> Finding:
        return recognise(read(content, upto=0).file, others, [past.position() for past in pasts])

    return recognised


def test_what_nobody_read_is_new(find, read):
    assert find(ONE).origin is Origin.NEW
    assert find(ONE, [read(TWO)], [read(THREE)]).origin is Origin.NEW


def test_reading_goes_on_after_the_longest_that_was_read(find, read):
    short, long = read(ONE), read(ONE + TWO)
    assert find(ONE + TWO + THREE, pasts=[short, long]) == (Origin.CONTINUES, long.position())
    assert find(ONE + TWO + THREE, pasts=[long, short]) == (Origin.CONTINUES, long.position())
    assert find(ONE + TWO + THREE, others=[short], pasts=[long]) == (Origin.CONTINUES, long.position())


def test_what_is_shorter_than_what_was_read_is_a_copy(find, read):
    assert find(ONE, pasts=[read(ONE + TWO)]).origin is Origin.COPY
    assert find(ONE, others=[read(ONE + TWO)]).origin is Origin.COPY
    assert find(ONE + TWO[:50], others=[read(ONE + TWO)]).origin is Origin.COPY


def test_a_copy_of_one_is_a_copy_though_it_goes_beyond_another(find, read):
    assert find(ONE + TWO, pasts=[read(ONE), read(ONE + TWO + THREE)]).origin is Origin.COPY


def test_what_is_as_long_as_a_file_that_is_being_read_may_still_grow_like_it(find, read):
    assert find(ONE, others=[read(ONE)]).origin is Origin.COPY
    assert find(ONE, pasts=[read(ONE)]).origin is Origin.CONTINUES


def test_what_goes_beyond_a_file_waits_until_that_was_read_to_its_end(find, read):
    assert find(ONE + TWO + THREE, others=[read(ONE + TWO, upto=len(ONE))]).origin is Origin.COPY
    assert find(ONE + TWO + THREE, others=[read(ONE + TWO)]).origin is Origin.CONTINUES


def test_nothing_is_said_beside_a_file_that_was_truncated_a_moment_ago(find, read):
    other = read(ONE + TWO + THREE)
    with Path(other.path).open("wb"):
        assert find(ONE + TWO, others=[other]).origin is Origin.COPY


def test_a_file_of_which_nothing_was_read_yet_is_nobodys_original(find, read):
    assert find(ONE, others=[read(b"half", upto=100)], pasts=[read(b"half", upto=100)]).origin is Origin.NEW


@pytest.mark.parametrize("magic", [b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh9"])
def test_a_compressed_file_is_known_by_its_first_bytes(find, magic):
    assert find(magic + b"whatever\n").origin is Origin.COMPRESSED


def test_an_end_without_any_marked_line_is_compared_too(find, read):
    endless = read(b"x" * 70_000)
    endless.skip_to_end()
    assert find(ONE, pasts=[endless]).origin is Origin.NEW
    assert find(b"x" * 1000, pasts=[endless]).origin is Origin.COPY


def test_a_log_that_was_taken_up_at_its_end_is_known_again(find, read):
    content = b"".join(b'{"n":%d,"pad":"%s"}\n' % (n, b"x" * 20_000) for n in range(20))
    late = read(content, upto=0)
    late.skip_to_end()
    with Path(late.path).open("ab") as file:
        file.write(ONE + TWO)
    late.read(1 << 20)
    assert find(content + ONE + TWO + THREE, pasts=[late]) == (Origin.CONTINUES, late.position())
    assert find(content, pasts=[late]).origin is Origin.COPY
