"""The admin API's OpenAPI 3.1 document, made of the types that are answered."""

from __future__ import annotations

from typing import Any

import msgspec

from vllm_observe import __version__
from vllm_observe.serve.api.answers import Attempts, Problem, RequestList, SessionList
from vllm_observe.serve.api.questions import PARAMETERS
from vllm_observe.serve.state import State

__all__ = ["openapi_document"]

_ANSWERS = (State, RequestList, Attempts, SessionList, Problem)
_REFUSALS = {
    "400": "A parameter is unknown, given twice or not understood.",
    "401": "Credentials are missing or wrong.",
    "403": "Without credentials only this machine is answered.",
    "404": "No such request is known.",
    "503": "Nothing is stored, or the store cannot be read.",
}


def openapi_document() -> dict[str, Any]:
    """Return the document."""
    schemas, components = msgspec.json.schema_components(_ANSWERS, ref_template="#/components/schemas/{name}")
    state, requests, attempts, sessions, _ = schemas
    refused = ("401", "403")
    asked = ("400", *refused, "503")
    listed = [
        {"name": p.name, "in": "query", "description": p.help, "schema": dict(p.schema)} for p in PARAMETERS
    ]
    one = [
        {"name": "request_id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    ]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vllm-observe admin API",
            "version": __version__,
            "description": "Which requests were slow on a vLLM server, whose they were, and why.",
        },
        "paths": {
            "/api/v1/state": _get("The state of vLLM, as status shows it.", state, refused),
            "/api/v1/requests": _get("Requests, the newest first.", requests, asked, listed),
            "/api/v1/requests/{request_id}": _get(
                "All attempts of one request, with every record of it.",
                attempts,
                (*refused, "404", "503"),
                one,
            ),
            "/api/v1/sessions": _get("Sessions, that of the newest request first.", sessions, asked, listed),
        },
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"bearer": []}, {"basic": []}],
    }


def _get(
    summary: str, answer: Any, refusals: tuple[str, ...], parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    problem = {"$ref": "#/components/schemas/Problem"}
    responses = {"200": _response("The answer.", answer)} | {
        status: _response(_REFUSALS[status], problem) for status in refusals
    }
    asked = {"parameters": parameters} if parameters else {}
    return {"get": {"summary": summary, **asked, "responses": responses}}


def _response(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
