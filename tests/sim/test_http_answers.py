"""Answers as a recorded vLLM 0.32.0 gave them to the same requests: one of each kind.

For its tiny model every character was a token, so here a prompt's characters are parted.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.asgi import Stage
from support.sims import deployment

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "captures" / "vllm-0.32.0" / "answers.json").read_bytes()
)
#: What vLLM says besides, which a simulator cannot know or has no use for.
UNSAID = {"system_fingerprint", "permission"}
#: What depends on the moment, the machine or the model's mind.
FREE = {"id", "created", "content", "text", "message", "root", "prompt_tokens", "total_tokens"}


@pytest.fixture(scope="module")
def answered():
    stage = Stage(
        deployment(max_model_len=2048, num_gpu_blocks=2048, max_num_batched_tokens=2048),
        release="0.32.0",
        development=True,
    )
    return {
        one["name"]: stage.ask(
            one["path"], parted(one["body"]), method=one["method"], headers={"X-Request-Id": one["name"]}
        )
        for one in RECORDED
    }


def parted(body):
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, dict):
        return body
    prompt, messages = body.get("prompt"), body.get("messages")
    if isinstance(prompt, str):
        return {**body, "prompt": " ".join(prompt)}
    if isinstance(messages, list) and messages and isinstance(messages[0]["content"], str):
        return {**body, "messages": [{**messages[0], "content": " ".join(messages[0]["content"])}]}
    return body


def said(value):
    """What vLLM tells, without fields in which it tells nothing."""
    if isinstance(value, dict):
        return {
            name: "free" if name in FREE and not isinstance(one, dict) else said(one)
            for name, one in value.items()
            if one is not None and name not in UNSAID
        }
    return [said(one) for one in value] if isinstance(value, list) else value


def read(text):
    if text.startswith("data: "):
        events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        return [said(json.loads(one)) if one != "[DONE]" else one for one in events]
    return said(json.loads(text)) if text.startswith("{") else text


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one["name"])
def test_an_answer_says_what_a_real_one_said(answered, recorded):
    got = answered[recorded["name"]]

    assert got.status == recorded["status"]
    assert got.headers.get("content-type") == recorded["content_type"]
    real, made = read(recorded["text"]), read(got.text)
    if recorded["name"] == "text-prompts-stream" or "n-stream" in recorded["name"]:
        # Which of several answers has a token first is chance.
        real, made = (
            sorted(json.dumps(event, sort_keys=True) for event in events) for events in (real, made)
        )
    assert made == real


@pytest.mark.parametrize(
    "recorded",
    [one for one in RECORDED if "choices" in one["text"] and "data:" not in one["text"]],
    ids=lambda one: one["name"],
)
def test_an_answer_has_the_id_and_the_tokens_of_a_real_one(answered, recorded):
    real, made = json.loads(recorded["text"]), answered[recorded["name"]].json

    if "body-id" not in recorded["name"]:
        assert made["id"] == real["id"]
    assert made["usage"]["completion_tokens"] == real["usage"]["completion_tokens"]
    if "ids" in recorded["name"]:
        assert made["usage"] == {name: real["usage"][name] for name in made["usage"]}
