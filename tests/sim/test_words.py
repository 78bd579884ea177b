"""Texts as tokens: a word is one, and what no model could hold is not read."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.asgi import CHAT, COMPLETIONS
from vllm_observe.sim.http.asked import read_asked
from vllm_observe.sim.http.words import chat_segments, id_segments, text_segments
from vllm_observe.sim.prompts import length

counts = st.integers(0, 200)


@given(counts, st.integers(1, 150))
def test_a_text_is_as_long_as_its_words_or_just_too_long(words, most):
    assert length(text_segments("w " * words, most=most)) == min(words, most + 1)
    # In a chat with a token for its role and one for the answer's.
    assert length(chat_segments([("user", "w " * words)], most=most)) == min(words, most + 1) + 2


@given(counts)
def test_token_ids_are_a_token_each(count):
    assert length(id_segments(range(count))) == count


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b'{"messages": [{"role": "user", "content": "%s"}]}' % (b"w " * 1_000_000)),
        (COMPLETIONS, b'{"prompt": "%s"}' % (b"w " * 1_000_000)),
    ],
)
def test_a_prompt_that_no_model_could_hold_is_not_taken_apart(path, body):
    tracemalloc.start()
    asked = read_asked(path, body, context=64)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert asked.prompt_tokens > 64
    assert most < 3 * len(body)  # a million words alone would be some fifty times as much
