from __future__ import annotations

import pytest

from vllm_observe.serve.exemplars import exemplar_labels


def test_a_request_and_its_session_are_named():
    assert exemplar_labels("chatcmpl-abc", "s-1") == {"request_id": "chatcmpl-abc", "session_id": "s-1"}


@pytest.mark.parametrize("session", [None, ""])
def test_a_session_that_is_not_known_is_left_out(session):
    assert exemplar_labels("abc", session) == {"request_id": "abc"}


def test_a_request_without_an_id_has_no_labels():
    assert exemplar_labels("", "s-1") == {}


# 128 characters for both names and both values; each name has 10.
@pytest.mark.parametrize(
    ("request_length", "session_length", "request_kept", "session_kept"),
    [
        (36, 36, 36, 36),
        (72, 36, 72, 36),
        (73, 36, 73, 35),
        (92, 36, 92, 16),
        (93, 36, 93, None),  # 15 characters of a longer session are a riddle
        (93, 15, 93, 15),
        (94, 15, 94, None),
        (118, 1, 118, None),
        (107, 1, 107, 1),
        (5000, 5000, 118, None),
    ],
)
def test_the_request_takes_what_it_needs_and_the_session_what_is_left(
    request_length, session_length, request_kept, session_kept
):
    expected = {"request_id": "r" * request_kept}
    if session_kept:
        expected["session_id"] = "s" * session_kept
    assert exemplar_labels("r" * request_length, "s" * session_length) == expected


@pytest.mark.parametrize(
    "unsafe", ['"', "\\", "{", "}", "\n", "\r", "\t", "\0", "\x7f", "\x85", "\u2028", "\u202e", "\ud800"]
)
def test_what_an_exposition_cannot_carry_becomes_an_underscore(unsafe):
    assert exemplar_labels(f"a{unsafe}b", f"{unsafe}s") == {"request_id": "a_b", "session_id": "_s"}


def test_a_printable_id_stays_as_it_is_in_any_script():
    odd = "chat/#1:2 é漢 =,'"
    assert exemplar_labels(odd) == {"request_id": odd}
