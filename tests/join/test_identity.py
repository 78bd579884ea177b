from __future__ import annotations

import pytest

from vllm_observe.join.identity import candidates, indexed, key

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
    found = candidates("cmpl-job-1-0")
    assert found[0] == "cmpl-job-1-0"
    assert [len(one) for one in found] == sorted(map(len, found), reverse=True)
    assert found.index("job-1-0") < found.index("job-1")


def test_the_hexadecimal_end_of_a_uuid_is_never_cut():
    assert candidates(UUID) == [UUID]
    assert "3f0c9a52-7d1e-4b8a-9c55" not in candidates(f"chatcmpl-{UUID}-9be01f77")


def test_a_chat_has_no_index_of_a_prompt():
    assert "user-3" not in candidates("chatcmpl-user-3-1")
    assert "user-3" in candidates("cmpl-user-3-1")


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


def test_ids_that_were_cut_at_their_end_meet_all_the_same():
    client_id = "x" * 1_000_000
    kept = client_id[:256]
    for engine_id in (f"chatcmpl-{client_id}-9be01f77", f"12_cmpl-{client_id}-0-9be01f77"):
        assert key(kept) in candidates(engine_id[:256])
