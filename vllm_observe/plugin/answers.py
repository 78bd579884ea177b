"""What the bytes of an answer tell, without parsing them: the first token, a failure, an error's type.

A quote inside a JSON string is escaped, so a pattern with plain quotes never matches what a model or a
user wrote. Each function looks at one chunk; vLLM sends an event of a stream in one.
"""

from __future__ import annotations

import re

__all__ = ["error_type", "failure", "has_token", "is_plain"]

_TEXT = re.compile(
    rb'"(?:content|reasoning|reasoning_content|text|arguments|partial_json|thinking)":\s?"[^"]'
)
_TOOL_CALL = re.compile(rb'"tool_calls":\s?\[\{')
_CHOICE = re.compile(rb'"choices":\s?\[\{')
# Its first events repeat the request, with texts that are no tokens.
_RESPONSE_DELTA = re.compile(rb'"type":\s?"response\.[a-z_.]+\.delta"')

_FAILED_STREAM = re.compile(rb'(?:^|\n)data:\s?\{\s?"(?:error"|object":\s?"error"|type":\s?"error")')
_FAILED_BODY = re.compile(rb'\s*\{\s*"(?:error"\s*:\s*[^n\s]|object"\s*:\s*"error")')
# A response has no reason but a status; "failed" is also what a tool's call in it may be.
_CUT_OFF = re.compile(rb'"(?:finish_reason":\s?"(abort|error)|status":\s?"cancelled)"')
_TYPE = re.compile(rb'"type":\s*"([A-Za-z0-9_.:-]{1,64})"')
# vLLM gives its clients one type for all that goes wrong in it. Only these words tell an engine that is dead.
_ENGINE_DEAD = re.compile(rb'"message":\s*"EngineCore encountered an issue\b')


def has_token(chunk: bytes, *, is_response: bool) -> bool:
    """Say whether a chunk of a stream carries a token.

    The role that a chat begins with is none. A choice without a role and without a text is one: the
    text of some tokens is empty.

    Args:
        chunk: what was sent at once.
        is_response: the stream is that of ``/v1/responses``.
    """
    if is_response:
        return _RESPONSE_DELTA.search(chunk) is not None
    if _TEXT.search(chunk) or _TOOL_CALL.search(chunk):
        return True
    return _CHOICE.search(chunk) is not None and b'"role"' not in chunk


def is_plain(chunk: bytes) -> bool:
    """Say, in no time, whether a chunk tells of no failure: nearly all do not."""
    return b'"error"' not in chunk and b'"abort"' not in chunk and b'"cancelled"' not in chunk


def failure(chunk: bytes, *, streams: bool, first: bool) -> str | None:
    """Return how a chunk of an answer with a good status says that it failed: ``error`` or ``abort``.

    Args:
        chunk: what was sent at once.
        streams: the answer is a stream of events.
        first: it is the answer's first chunk; the body of an error begins with the error.
    """
    if is_plain(chunk):
        return None
    if _FAILED_STREAM.search(chunk) if streams else first and _FAILED_BODY.match(chunk):
        return "error"
    cut_off = _CUT_OFF.search(chunk)
    return (cut_off[1] or b"abort").decode() if cut_off else None


def error_type(chunk: bytes) -> str | None:
    """Return the type that an error's body or event names, vLLM's own for a dead engine; never its message."""
    if _ENGINE_DEAD.search(chunk):
        return "EngineDeadError"
    found = _TYPE.search(chunk)
    return found[1].decode() if found else None
