"""The routes of the admin API that answer from the store."""

from __future__ import annotations

import re
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from vllm_observe.clock import Clock
from vllm_observe.errors import CursorError, StoreError
from vllm_observe.serve.api.answers import attempts_of, list_requests, list_sessions
from vllm_observe.serve.api.openapi import openapi_document
from vllm_observe.serve.api.questions import Question, QuestionError, read_question
from vllm_observe.serve.app import json_response
from vllm_observe.store.protocol import RequestReader

__all__ = ["api_routes"]


def api_routes(store: Callable[[], RequestReader | None], clock: Clock) -> list[Route]:
    """Make the routes.

    Args:
        store: what answers; gives ``None`` where nothing is stored.
        clock: ages such as ``15m`` count from its time of day.
    """

    def reader() -> RequestReader:
        found = store()
        if found is None:
            raise HTTPException(503, "no requests are stored: start the sidecar with --store FILE")
        return found

    # Plain functions: starlette runs them in a thread, where a disk may take its time.
    def requests(request: Request) -> Response:
        asked = _question(request, clock)
        return json_response(
            _from_store(lambda: list_requests(reader(), asked.where, limit=asked.limit, cursor=asked.cursor))
        )

    def sessions(request: Request) -> Response:
        asked = _question(request, clock)
        return json_response(
            _from_store(lambda: list_sessions(reader(), asked.where, limit=asked.limit, cursor=asked.cursor))
        )

    def one_request(request: Request) -> Response:
        found = _from_store(lambda: attempts_of(reader(), request.path_params["request_id"]))
        if found is None:
            raise HTTPException(
                404, "no such request: not seen, still in the join, or older than what is kept"
            )
        return json_response(found)

    def document(_: Request) -> Response:
        return json_response(openapi_document())

    by_id = Route("/api/v1/requests/{request_id:path}", one_request)
    by_id.path_regex = re.compile(by_id.path_regex.pattern, re.DOTALL)  # an id may hold a newline

    return [
        Route("/api/v1/requests", requests),
        by_id,
        Route("/api/v1/sessions", sessions),
        Route("/api/v1/openapi.json", document),
    ]


def _question(request: Request, clock: Clock) -> Question:
    try:
        return read_question(request.query_params.multi_items(), now=clock.wall())
    except QuestionError as error:
        raise HTTPException(400, str(error)) from None


def _from_store(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except CursorError as error:
        raise HTTPException(400, str(error)) from None
    except StoreError as error:
        raise HTTPException(503, str(error)) from None
