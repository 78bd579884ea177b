from __future__ import annotations

import contextlib
import gzip
import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from vllm_observe.records import gunzip
from vllm_observe.records.files import OsFiles
from vllm_observe.records.gunzip import Gunzipped, text_of

TEXT = b"".join(b"%d\n" % random.Random(number).getrandbits(60) for number in range(20_000))


@pytest.fixture
def inflate(tmp_path):
    """Open a file with some content as the text that it holds."""
    opened = []

    def made(content: bytes):
        path = tmp_path / str(len(opened))
        path.write_bytes(content)
        opened.append(text_of(OsFiles().open(str(path))))
        return opened[-1]

    yield made
    for file in opened:
        file.close()


def asked_again(read, *args):
    for _ in range(10_000):
        with contextlib.suppress(BlockingIOError):
            return read(*args)
    raise AssertionError("it comes no nearer")


def test_a_plain_file_is_its_own_text(inflate):
    file = inflate(b"one\n")
    assert not isinstance(file, Gunzipped)
    assert (file.pread(0, 100), file.size()) == (b"one\n", 4)


@pytest.mark.parametrize("level", [0, 1, 9])
def test_the_text_is_read_from_any_place(inflate, level, monkeypatch):
    monkeypatch.setattr(gunzip, "_BETWEEN_BYTES", 10_000)
    file = inflate(gzip.compress(TEXT, level))
    for offset, size in ((0, 10), (100_000, 50), (99_000, 2_000), (5, 70_000), (len(TEXT) - 3, 10)):
        assert file.pread(offset, size) == TEXT[offset : offset + size]
    assert file.size() == len(TEXT)
    assert file.pread(len(TEXT) + 5, 10) == b""
    assert file.damage is None


def test_members_are_read_as_one(inflate):
    file = inflate(gzip.compress(b"one\n") + gzip.compress(b"") + gzip.compress(b"two\n"))
    assert (file.pread(0, 100), file.size(), file.damage) == (b"one\ntwo\n", 8, None)


def test_what_follows_the_last_member_is_no_text(inflate):
    file = inflate(gzip.compress(b"one\n") + b"\0" * 100)
    assert (file.pread(0, 100), file.size(), file.damage) == (b"one\n", 4, None)


def test_what_is_far_ahead_is_reached_in_several_goes(inflate, monkeypatch):
    monkeypatch.setattr(gunzip, "_STEP_BYTES", 20_000)
    monkeypatch.setattr(gunzip, "_BETWEEN_BYTES", 10_000)
    file = inflate(gzip.compress(TEXT))
    with pytest.raises(BlockingIOError):
        file.pread(300_000, 10)
    assert asked_again(file.pread, 300_000, 10) == TEXT[300_000:300_010]
    for offset in (250_000, 10, 290_000):  # nothing that was passed is far
        assert file.pread(offset, 10) == TEXT[offset : offset + 10]
    assert asked_again(file.size) == len(TEXT)


def test_two_places_that_are_read_in_turn_are_both_reached(inflate, monkeypatch):
    monkeypatch.setattr(gunzip, "_STEP_BYTES", 20_000)
    monkeypatch.setattr(gunzip, "_BETWEEN_BYTES", 10_000)
    file = inflate(gzip.compress(TEXT))

    def both() -> bytes:
        return file.pread(300_000, 10) + file.pread(150_000, 10)

    assert asked_again(both) == TEXT[300_000:300_010] + TEXT[150_000:150_010]


def test_a_wrong_checksum_is_damage_though_the_text_is_whole(inflate):
    content = bytearray(gzip.compress(TEXT))
    content[-6] ^= 1
    file = inflate(bytes(content))
    assert file.pread(0, len(TEXT) + 1) == TEXT
    assert file.damage == "damaged"


@given(place=st.integers(0), length=st.integers(0, 40), noise=st.binary(max_size=40))
@settings(max_examples=150)
def test_no_damage_is_more_than_damage(tmp_path_factory, place, length, noise):
    content = bytearray(gzip.compress(TEXT[:30_000]))
    at = place % len(content)
    content[at : at + length] = noise
    path = tmp_path_factory.mktemp("damaged") / "app.gz"
    path.write_bytes(content)
    file = text_of(OsFiles().open(str(path)))
    if isinstance(file, Gunzipped):
        text = file.pread(0, 100_000)
        assert file.size() == len(text)
    file.close()
