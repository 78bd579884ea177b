"""One request to the model: handed in, told to its client as its tokens come, and counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vllm_observe.plugin.response_ids import METADATA
from vllm_observe.sim.http.answers import Answer, Choice, Usage, body, error, event
from vllm_observe.sim.http.asked import CHAT, Asked
from vllm_observe.sim.http.conductor import Conductor, Ticket
from vllm_observe.sim.http.surface import Surface
from vllm_observe.sim.http.wanted import Wanted
from vllm_observe.sim.http_tally import status_of
from vllm_observe.sim.requests import End, Ended

__all__ = ["Generation"]

#: What vLLM says of a request that it let in and did not bring to its end, and of one that it did not.
_FAILURES = {
    End.REFUSED: ("Service Unavailable", "the engine is busy: try again later"),
    End.INVALID: ("BadRequestError", "the request does not fit into the model's context"),
    End.FAILED: (
        "InternalServerError",
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    ),
    End.BROKEN: ("InternalServerError", "Internal Server Error"),
}
_FAILED_CODES = {End.REFUSED: 503, End.INVALID: 400}


class Generation:
    """An ASGI answer: it hands the request in when it is called, and leaves with the client.

    Args:
        asked: what the client asks for.
        answer: what the bodies of the answer have in common.
        wanted: the single answers.
        conductor: to whom they go.
        surface: how the release tells of errors.
    """

    def __init__(
        self,
        asked: Asked,
        *,
        answer: Answer,
        wanted: Sequence[Wanted],
        conductor: Conductor,
        surface: Surface,
    ) -> None:
        self._asked = asked
        self._answer = answer
        self._arrivals = [one.arrival for one in wanted]
        self._outputs = [one.output for one in wanted]
        self._conductor = conductor
        self._surface = surface
        self._news = asyncio.Event()
        self._client_left = False
        self._begun = False
        self._told = [0] * len(wanted)
        self._ended = [False] * len(wanted)
        self._tickets: list[Ticket] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; return when all is told, or the client is gone."""
        self._tickets = self._conductor.submit(self._arrivals, self._news, every_token=self._asked.streams)
        metadata = SimpleNamespace(request_id=self._answer.request_id, final_usage_info=None)
        scope.setdefault("state", {})[METADATA] = metadata
        watch = asyncio.ensure_future(self._watch_client(receive))
        try:
            response = await (self._stream(send) if self._asked.streams else self._wait())
            if not self._client_left and self._failure is None:
                metadata.final_usage_info = SimpleNamespace(**self._usage.told())
            if response is not None and not self._client_left:
                await response(scope, receive, send)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
            self._conductor.leave(self._tickets)

    async def _watch_client(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client_left = True
        self._news.set()

    # --- All at once

    async def _wait(self) -> Response:
        while not self._client_left and self._failure is None and not self._is_over:
            await self._next()
        choices = [self._whole(index) for index in range(len(self._tickets))]
        return self._refusal() or _json(self._answer.whole(choices, self._usage))

    def _whole(self, index: int) -> Choice:
        ticket = self._tickets[index]
        return Choice(index, self._outputs[index].text(0, ticket.tokens), _reason(ticket.ended))

    # --- As it comes

    async def _stream(self, send: Send) -> Response | None:
        refusal = self._refusal()
        if refusal is not None:
            return refusal
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
            }
        )
        while not self._is_over and self._failure is None:
            await self._next()
            if self._client_left:
                return None
            for part in self._parts():
                await _send_part(send, part)
        if (failure := self._failure) is not None:
            await _send_part(send, event(self._error(failure)))
        elif self._asked.wants_usage:
            await _send_part(send, event(self._answer.total(self._usage)))
        await _send_part(send, event(None))
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None

    def _parts(self) -> Iterator[bytes]:
        """Yield what is new of each answer, as events; all of a chat's begin with the first token of any."""
        for index, ticket in enumerate(self._tickets):
            tokens, ended = ticket.tokens, ticket.ended
            if self._ended[index] or (tokens == self._told[index] and ended is None):
                continue
            yield from self._beginnings()
            if ended is None or ended.finished:
                text = self._outputs[index].text(self._told[index], tokens)
                choice = Choice(index, text, _reason(ended))
                yield event(self._answer.part(choice, self._usage_of(ticket, tokens)))
            self._told[index], self._ended[index] = tokens, ended is not None

    def _beginnings(self) -> Iterator[bytes]:
        if self._answer.path == CHAT and not self._begun:
            for index, ticket in enumerate(self._tickets):
                yield event(self._answer.beginning(index, self._usage_of(ticket, 0)))
        self._begun = True

    def _usage_of(self, ticket: Ticket, tokens: int) -> Usage | None:
        return Usage(ticket.live.prompt_tokens, tokens) if self._asked.wants_usage_always else None

    # --- Both

    async def _next(self) -> None:
        await self._news.wait()
        self._news.clear()

    @property
    def _is_over(self) -> bool:
        return all(ticket.ended is not None for ticket in self._tickets)

    @property
    def _failure(self) -> Ended | None:
        """How the first that failed of several failed; all of them fail with it."""
        ended = (ticket.ended for ticket in self._tickets)
        return next((one for one in ended if one is not None and one.end in _FAILURES), None)

    @property
    def _usage(self) -> Usage:
        return Usage(self._asked.prompt_tokens, sum(ticket.tokens for ticket in self._tickets))

    def _refusal(self) -> Response | None:
        """Return what answers a request that failed, if it did."""
        failure = self._failure
        return None if failure is None else _json(self._error(failure), status_of(failure) or 500)

    def _error(self, failure: Ended) -> dict[str, object]:
        kind, message = _FAILURES[failure.end]
        return error(self._surface, message, kind=kind, code=_FAILED_CODES.get(failure.end, 500))


def _reason(ended: Ended | None) -> str | None:
    return None if ended is None else ended.end.value


def _json(told: dict[str, object], status: int = 200) -> Response:
    return Response(body(told), status, media_type="application/json")


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})
