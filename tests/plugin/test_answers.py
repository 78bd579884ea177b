from __future__ import annotations

import json
from pathlib import Path

import pytest

from vllm_observe.plugin.answers import error_type, failure, has_token

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


def event(data, name=None):
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def choice(**fields):
    return event({"choices": [{"index": 0, **fields, "finish_reason": None}]})


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (choice(delta={"content": "x"}), True),
        (choice(delta={"reasoning": "x"}), True),
        (choice(delta={"reasoning_content": "x"}), True),
        (choice(delta={"tool_calls": [{"index": 0, "function": {"name": "f"}}]}), True),
        (choice(text="x"), True),
        (choice(text=""), True),  # a token that is no whole character
        (choice(delta={"role": "assistant", "content": ""}), False),
        (choice(delta={"role": "assistant", "content": "x"}), True),
        (choice(delta={"role": "assistant", "content": "", "reasoning_content": None}), False),
        (choice(delta={"role": "assistant", "content": ""}) + choice(delta={"content": "x"}), True),
        (event({"choices": [], "usage": {"prompt_tokens": 3}}), False),
        (b"data: [DONE]\n\n", False),
        (b": ping\n\n", False),
        (event({"type": "message_start", "message": {"content": []}}, "message_start"), False),
        (event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}}), True),
    ],
)
def test_a_token_is_told_from_what_comes_before_it(chunk, expected):
    assert has_token(chunk, is_response=False) is expected


def test_a_response_begins_with_events_that_repeat_the_request():
    created = event({"type": "response.created", "response": {"metadata": {"text": "x", "content": "y"}}})
    added = event({"type": "response.output_item.added", "item": {"role": "assistant", "content": []}})
    delta = event({"type": "response.output_text.delta", "delta": "x"}, "response.output_text.delta")
    assert [has_token(chunk, is_response=True) for chunk in (created, added, delta)] == [False, False, True]


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (event({"error": {"message": "m", "type": "InternalServerError"}}), "error"),
        (b'data: {"error": {"message": "m"}}\n\n', "error"),
        (event({"object": "error", "message": "m"}), "error"),
        (event({"type": "error", "error": {"type": "overloaded_error"}}, "error"), "error"),
        (choice(delta={}).replace(b"null", b'"abort"'), "abort"),
        (choice(delta={}).replace(b"null", b'"error"'), "error"),
        (choice(delta={"content": 'data: {"error": "finish_reason":"abort"'}), None),
        (choice(delta={"content": '\n\ndata: {"error"'}), None),
        (event({"type": "response.created", "response": {"error": None, "status": "in_progress"}}), None),
        (event({"type": "response.completed", "response": {"output": [], "status": "cancelled"}}), "abort"),
        (event({"type": "response.output_text.delta", "delta": '"status":"cancelled"'}), None),
        (choice(delta={"content": "x"}), None),
    ],
)
def test_a_stream_that_fails_is_told_from_one_that_writes_of_failing(chunk, expected):
    assert failure(chunk, streams=True, first=False) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error":{"message":"m","type":"InternalServerError","param":null,"code":500}}', "error"),
        (b'{"object":"error","message":"m","type":"BadRequestError","code":400}', "error"),
        (b'{"error":null,"choices":[]}', None),
        (b'{"id":"chatcmpl-1","choices":[{"finish_reason":"abort"}]}', "abort"),
        (b'{"id":"resp_1","error":null,"status":"completed"}', None),
        (b'{"id":"resp_1","output":[{"type":"mcp_call","status":"failed"}],"status":"completed"}', None),
        (b'{"id":"resp_1","output":[{"status":"completed"}],"status":"cancelled"}', "abort"),
        (b'{"id":"1","choices":[{"message":{"content":"{\\"error\\":1}"},"finish_reason":"stop"}]}', None),
        (b"", None),
        (b"\xff\xfe\x00", None),
    ],
)
def test_the_first_bytes_tell_an_error_from_an_answer(body, expected):
    assert failure(body, streams=False, first=True) == expected


def test_a_piece_from_the_middle_of_a_body_is_no_error():
    assert failure(b'{"error":{"type":"x"}}', streams=False, first=False) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"error":{"message":"the \\"type\\":\\"x\\"","type":"NotFoundError"}}', "NotFoundError"),
        (b'{"error":{"type":"not a code, but words of a user"}}', None),
        (b'{"error":"Unauthorized"}', None),
        (rb'{"error":{"message":"no \"message\":\"EngineCore encountered an issue","type":"BadR"}}', "BadR"),
    ],
)
def test_an_error_is_known_by_its_type_and_never_its_message(body, expected):
    assert error_type(body) == expected


@pytest.mark.parametrize("name", ["completions.http", "not-stream.http", "stream.http"])
def test_a_dead_engine_is_told_from_any_other_failure_by_what_a_real_vllm_answers(name):
    answer = (CAPTURES / "vllm-0.16.0-engine-dead" / name).read_bytes()
    assert b'"type":"InternalServerError"' in answer
    assert error_type(answer) == "EngineDeadError"
