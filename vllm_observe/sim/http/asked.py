"""What a client asks for, read from a request's body, or what is wrong with it, as vLLM would say."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec

from vllm_observe.sim.http.words import chat_segments, id_segments, text_segments
from vllm_observe.sim.prompts import Segment, length

__all__ = ["CHAT", "COMPLETIONS", "Asked", "BadRequestError", "read_asked"]

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"

#: What a completion may have where it does not say.
_DEFAULT_COMPLETION = 16
#: Answers to one request at most.
_MOST_ANSWERS = 128
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"^Object missing required field `(.+?)`")


class BadRequestError(Exception):
    """A request cannot be served as it is: HTTP 400, or another status.

    Args:
        message: what is wrong, without what the client wrote.
        param: the field.
        kind: the error's type, in vLLM's words.
        status: the HTTP status.
    """

    def __init__(
        self, message: str, *, param: str | None = None, kind: str = "BadRequestError", status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.kind = kind
        self.status = status


class Asked(NamedTuple):
    """What a client asks for.

    ``n`` answers to each of ``prompts``, of at most ``max_tokens`` each. ``output_tokens`` is what the
    client would have the model say by itself, which a real one takes no notice of.
    """

    model: str | None
    prompts: tuple[tuple[Segment, ...], ...]
    n: int
    max_tokens: int | None
    ignores_end: bool
    output_tokens: int | None
    streams: bool
    wants_usage: bool
    wants_usage_always: bool
    priority: int
    request_id: str | None
    session_id: str | None
    xargs_session_id: str | None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(map(length, self.prompts))


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Body(msgspec.Struct, kw_only=True):
    model: str | None = None
    n: int | None = None
    max_tokens: int | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    priority: int = 0
    request_id: str | None = None
    session_id: str | None = None
    vllm_xargs: dict[str, Any] | None = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[dict[str, Any]] | None = None


class _Chat(_Body, kw_only=True):
    messages: list[_Message]
    max_completion_tokens: int | None = None


class _Completion(_Body, kw_only=True):
    prompt: str | list[Any] | None = None


def read_asked(path: str, body: bytes, *, context: int) -> Asked:
    """Read the body of a request to ``CHAT`` or ``COMPLETIONS``.

    Args:
        path: which of them.
        body: what came.
        context: the longest prompt there is room for, in tokens; a text that is longer is not read to its
            end, so however long it is, it holds nobody up.

    Raises:
        BadRequestError: vLLM would not serve it either.
    """
    if path == CHAT:
        return _chat(_decode(body, _Chat), context)
    return _completion(_decode(body, _Completion), context)


def _chat(body: _Chat, context: int) -> Asked:
    if not body.messages:
        raise BadRequestError("a conversation needs at least one message")
    messages = [(message.role, _text(message.content)) for message in body.messages]
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    return _asked(body, (chat_segments(messages, most=context),), most)


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return content or ""


def _completion(body: _Completion, context: int) -> Asked:
    prompt = body.prompt
    if prompt is None or prompt == "":
        raise BadRequestError("a prompt is needed", param="prompt")
    prompts = [prompt] if isinstance(prompt, str) or _is_ids(prompt) else prompt
    if not prompts:
        raise BadRequestError("at least one prompt is needed")
    most = _DEFAULT_COMPLETION if body.max_tokens is None else body.max_tokens
    return _asked(body, tuple(_prompt(one, context) for one in prompts), most)


def _is_ids(prompt: object) -> bool:
    return isinstance(prompt, list) and bool(prompt) and all(type(one) is int for one in prompt)


def _prompt(prompt: object, context: int) -> tuple[Segment, ...]:
    if isinstance(prompt, str):
        return text_segments(prompt, most=context)
    if isinstance(prompt, list) and _is_ids(prompt):
        return id_segments(prompt[: context + 1])
    raise BadRequestError(
        "a prompt is a text or a list of token ids", param="body.prompt", kind="Bad Request"
    )


def _asked(body: _Body, prompts: tuple[tuple[Segment, ...], ...], max_tokens: int | None) -> Asked:
    n = 1 if body.n is None else body.n
    options = body.stream_options
    if options is not None and not body.stream:
        raise BadRequestError("stream options are for streams", param="stream_options")
    if max_tokens is not None and max_tokens < 1:
        raise BadRequestError("max_tokens must be at least 1", param="max_tokens")
    if n < 1:
        raise BadRequestError("n must be at least 1")
    if n * len(prompts) > _MOST_ANSWERS:
        raise BadRequestError(f"n times the prompts must be at most {_MOST_ANSWERS}")
    xargs = body.vllm_xargs or {}
    told, session = xargs.get("output_tokens"), xargs.get("session_id")
    return Asked(
        model=body.model,
        prompts=prompts,
        n=n,
        max_tokens=max_tokens,
        ignores_end=bool(body.ignore_eos),
        output_tokens=told if type(told) is int and told > 0 else None,
        streams=bool(body.stream),
        wants_usage=options is not None and bool(options.include_usage),
        wants_usage_always=(
            options is not None and bool(options.include_usage and options.continuous_usage_stats)
        ),
        priority=body.priority,
        request_id=body.request_id,
        session_id=body.session_id,
        xargs_session_id=session if isinstance(session, str) else None,
    )


def _decode(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequestError(str(error), param=_param(str(error)), kind="Bad Request") from None
    except (msgspec.DecodeError, RecursionError):
        raise BadRequestError("the body is not JSON", param=_broken(body), kind="Bad Request") from None


def _broken(body: bytes) -> str:
    """Return where a body stops being JSON, as vLLM names it: ``body.17``."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return f"body.{error.pos}" if body else "body"
    except (ValueError, RecursionError):
        pass
    return "body"


def _param(message: str) -> str:
    """Return the field that a message of msgspec's is about, as vLLM names it: ``body.messages``."""
    place, missing = _PLACE.search(message), _MISSING.match(message)
    names = ["body"]
    if place and place[1]:
        names.append(place[1].replace("[...]", "").replace("[", ".").replace("]", ""))
    if missing:
        names.append(missing[1])
    return ".".join(names)
