from __future__ import annotations

import pytest

from vllm_observe.join.identity import candidates, indexed, keys
from vllm_observe.plugin.names import bounded

UUID = "3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f"

# Ids as vLLM makes them, by endpoint and release (facts of 36 releases).
DECORATED = [
    (f"chatcmpl-{UUID}", UUID),
    (f"chatcmpl-{UUID}-9be01f77", UUID),
    ("cmpl-deadbeefcafe0001-0", "deadbeefcafe0001"),
    ("cmpl-deadbeefcafe0001-00c0ffee", "deadbeefcafe0001"),
    ("cmpl-abc-1-00c0ffee", "abc"),
    ("1_chatcmpl-abc", "abc"),
    ("1_chatcmpl-abc-9be01f77", "abc"),
    ("0_cmpl-abc-12-9be01f77", "abc"),
    ("cmpl-abc-9ee8293009ea9001-beam-1", "abc"),
    ("cmpl-abc-9ee82930-beam-0-9be01f77", "abc"),
    ("cmpl-abc-1-9ee8293009ea9001-beam-1", "abc-1"),
    ("embd-abc-2047", "abc"),
    ("pool-abc-0", "abc"),
    ("classify-abc-0", "abc"),
    ("score-abc", "abc"),
    ("rerank-abc-3", "abc"),
    ("transcribe-abc", "abc"),
    ("translate-abc", "abc"),
    ("trsc-abc", "abc"),
    ("tokn-abc", "abc"),
    ("tokenize-abc", "abc"),
    ("generate-tokens-abc", "abc"),
    ("resp_0a1b", "resp_0a1b"),
    ("resp_0a1b_2", "resp_0a1b"),
    ("abc", "abc"),
    ("chatcmpl-", ""),
]


@pytest.mark.parametrize(("engine_id", "client_id"), DECORATED)
def test_a_decorated_id_stands_for_the_clients(engine_id, client_id):
    assert client_id in candidates(engine_id)


@pytest.mark.parametrize(
    "client_id", ["cmpl-7-0", "chatcmpl-x", "job-deadbeef", "0_job", "a-1-2", "line\nbreak-0"]
)
def test_a_client_id_that_looks_decorated_is_found_as_it_is(client_id):
    assert client_id in candidates(f"chatcmpl-{client_id}-9be01f77")
    assert client_id in candidates(f"0_cmpl-{client_id}-3-9be01f77")


def test_the_id_itself_is_believed_first_and_the_longer_before_the_shorter():
    found = candidates("score-job-1-0")
    assert found[0] == "score-job-1-0"
    assert [len(one) for one in found] == sorted(map(len, found), reverse=True)
    assert found.index("job-1-0") < found.index("job-1")


@pytest.mark.parametrize("endpoint", ["cmpl", "embd", "pool", "classify"])
@pytest.mark.parametrize("suffix", ["", "-9be01f77", "-12345678"])
def test_an_endpoint_that_numbers_all_prompts_leaves_no_id_with_the_number(endpoint, suffix):
    found = candidates(f"0_{endpoint}-job-1-0{suffix}")
    assert "job-1" in found
    assert f"{endpoint}-job-1" in found  # as the client reads it in the response
    assert "job-1-0" not in found
    assert "job" not in found


def test_the_hexadecimal_end_of_a_uuid_is_never_cut():
    assert candidates(UUID) == [UUID]
    assert "3f0c9a52-7d1e-4b8a-9c55" not in candidates(f"chatcmpl-{UUID}-9be01f77")


def test_a_chat_has_no_index_of_a_prompt():
    assert "user-3" not in candidates("chatcmpl-user-3-1")
    assert "user-3" in candidates("cmpl-user-3-1")


@pytest.mark.parametrize("endpoint", ["chatcmpl", "cmpl", "embd", "0_chatcmpl"])
def test_only_an_id_of_responses_has_turns(endpoint):
    assert "user" not in candidates(f"{endpoint}-user_3-0")
    assert "user" not in candidates(f"{endpoint}-user_3")
    assert "resp_1f" in candidates("resp_1f_3-9be01f77")


@pytest.mark.parametrize(
    ("engine_id", "client_id"),
    [
        ("cmpl-job-1", "job"),
        ("cmpl-job-1-0", "job-1"),
        ("3_embd-job-1-0-9be01f77", "job-1"),
        ("cmpl-job-1-12345678", "job"),  # eight digits are a suffix
        ("cmpl-deadbeefcafe0001-00c0ffee", None),
        ("cmpl-12345678", None),
        ("chatcmpl-job-1", None),
        ("job-1", None),
        ("score-line\nbreak-0", "line\nbreak"),
    ],
)
def test_an_index_tells_which_id_is_meant(engine_id, client_id):
    assert indexed(engine_id) == client_id
    assert client_id is None or client_id in candidates(engine_id)


@pytest.mark.parametrize("length", [1, 190, 196, 197, 230, 256, 257, 300, 1_000_000])
def test_an_id_meets_its_engines_forms_whatever_its_length_and_no_others(length):
    def client(end):
        return bounded("x" * length + end)

    for form in ("chatcmpl-{}", "chatcmpl-{}-9be01f77", "12_cmpl-{}-0-9be01f77", "generate-tokens-{}"):
        found = candidates(bounded(form.format("x" * length + "ab")))
        assert not {*keys(client("ab"))}.isdisjoint(found)
        for other in (client("ac"), client("b"), client("abc"), bounded("y" + "x" * length + "ab")):
            assert {*keys(other)}.isdisjoint(found)
