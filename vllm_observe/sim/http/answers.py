"""The bodies of answers, as vLLM writes them, without the fields in which it tells nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from vllm_observe.sim.http.asked import CHAT
from vllm_observe.sim.http.surface import Surface

__all__ = ["Answer", "Choice", "Usage", "body", "error", "event"]

_DONE = b"data: [DONE]\n\n"
_KINDS = {True: ("chat.completion", "chat.completion.chunk"), False: ("text_completion", "text_completion")}


class Usage(NamedTuple):
    """Tokens of a whole request."""

    prompt_tokens: int
    completion_tokens: int

    def told(self) -> dict[str, int]:
        """Return it as a body holds it."""
        prompt, completion = self
        return {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }


class Choice(NamedTuple):
    """One of the answers to a request, or a part of it."""

    number: int
    text: str
    finish_reason: str | None = None


def body(told: Mapping[str, Any]) -> bytes:
    """Write a body."""
    return msgspec.json.encode(told)


def event(told: Mapping[str, Any] | None) -> bytes:
    """Write an event of a stream; ``None`` is its last."""
    return _DONE if told is None else b"data: " + body(told) + b"\n\n"


def error(
    surface: Surface, message: str, *, kind: str, code: int, param: str | None = None
) -> dict[str, Any]:
    """Tell of an error, as the release does."""
    told = {"message": message, "type": kind, "param": param, "code": code}
    return {"error": told} if surface.nests_errors else {"object": "error", **told}


class Answer(NamedTuple):
    """What the bodies of one answer have in common."""

    path: str
    request_id: str
    model: str
    created: int

    def whole(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
        """Tell all at once."""
        return {**self._head(0), "choices": list(map(self._choice, choices)), "usage": usage.told()}

    def beginning(self, number: int, usage: Usage | None) -> dict[str, Any]:
        """Tell who speaks, which a chat's stream begins with."""
        return self._chunk({**_part(number, None), "delta": {"role": "assistant", "content": ""}}, usage)

    def part(self, choice: Choice, usage: Usage | None) -> dict[str, Any]:
        """Tell of some tokens."""
        said = {"delta": {"content": choice.text}} if self.path == CHAT else {"text": choice.text}
        return self._chunk({**_part(choice.number, choice.finish_reason), **said}, usage)

    def total(self, usage: Usage) -> dict[str, Any]:
        """Tell the usage, with which a stream ends where it was asked for."""
        return {**self._head(1), "choices": [], "usage": usage.told()}

    def _chunk(self, choice: dict[str, Any], usage: Usage | None) -> dict[str, Any]:
        told = {**self._head(1), "choices": [choice]}
        return told if usage is None else {**told, "usage": usage.told()}

    def _head(self, streamed: int) -> dict[str, Any]:
        return {
            "id": self.request_id,
            "object": _KINDS[self.path == CHAT][streamed],
            "created": self.created,
            "model": self.model,
        }

    def _choice(self, choice: Choice) -> dict[str, Any]:
        message = {"role": "assistant", "content": choice.text}
        said = {"message": message} if self.path == CHAT else {"text": choice.text}
        return {**_part(choice.number, choice.finish_reason), **said}


def _part(number: int, finish_reason: str | None) -> dict[str, Any]:
    return {"index": number, "logprobs": None, "finish_reason": finish_reason}
