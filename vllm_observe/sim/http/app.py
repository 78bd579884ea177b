"""The paths of a simulated vLLM: those of its release, and of development mode where that is on."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from vllm_observe.plugin.sessions import SESSION
from vllm_observe.sim.control import Control
from vllm_observe.sim.deployment import Deployment
from vllm_observe.sim.engine import State
from vllm_observe.sim.exposition import Exposition
from vllm_observe.sim.http.answers import Answer, error
from vllm_observe.sim.http.asked import CHAT, COMPLETIONS, Asked, BadRequestError, read_asked
from vllm_observe.sim.http.conductor import Conductor
from vllm_observe.sim.http.generation import Generation
from vllm_observe.sim.http.surface import Surface
from vllm_observe.sim.http.wanted import wanted

__all__ = ["Paths"]

_PREFIXES = {CHAT: "chatcmpl-", COMPLETIONS: "cmpl-"}
_TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"
_ANY = ("*",)  # who may ask from a browser, and what: vLLM's own defaults
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def _route(path: str, answer: Callable[[Request], Awaitable[Any]], method: str) -> Route:
    """Return a route of this method alone: FastAPI, unlike Starlette, answers HEAD where it was told to."""
    route = Route(path, answer, methods=[method])
    route.methods = {method}
    return route


class Paths:
    """Answers requests.

    Args:
        conductor: to whom requests for the model go.
        control: what is wrong with the server.
        exposition: writes /metrics.
        surface: how the release behaves.
        adapters: names of LoRA adapters that can be asked for in the model's place.
        development: whether ``VLLM_SERVER_DEV_MODE`` is on.
    """

    def __init__(
        self,
        conductor: Conductor,
        *,
        control: Control,
        exposition: Exposition,
        surface: Surface,
        adapters: Sequence[str] = (),
        development: bool = False,
    ) -> None:
        self._conductor = conductor
        self._control = control
        self._exposition = exposition
        self._surface = surface
        self._adapters = adapters
        self._development = development
        self._created = int(conductor.epoch + conductor.now)

    def app(self) -> ASGIApp:
        """Return the application."""
        return Starlette(
            routes=list(self._routes()),
            middleware=[
                Middleware(CORSMiddleware, allow_origins=_ANY, allow_methods=_ANY, allow_headers=_ANY)
            ],
            exception_handlers={BadRequestError: self._bad_request, HTTPException: self._no_such_path},
        )

    def _routes(self) -> Sequence[BaseRoute]:
        surface = self._surface
        gets: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/v1/models": self._models,
            "/version": self._version,
            "/health": self._health,
            "/metrics": self._metrics,
            "/metrics/": self._metrics,
        }
        posts: dict[str, Callable[[Request], Awaitable[Any]]] = {
            CHAT: self._generate,
            COMPLETIONS: self._generate,
        }
        if surface.pings:
            gets["/ping"] = posts["/ping"] = self._health
        if self._development and surface.develops:
            gets |= {"/is_sleeping": self._is_sleeping, "/server_info": self._server_info}
            posts |= {
                "/sleep": self._sleep,
                "/wake_up": self._wake_up,
                "/reset_prefix_cache": self._reset_prefix_cache,
            }
        return [
            *(_route(path, answer, "GET") for path, answer in gets.items()),
            *(_route(path, answer, "POST") for path, answer in posts.items()),
        ]

    @property
    def _deployment(self) -> Deployment:
        """The server as it is now."""
        self._conductor.advance()
        return self._conductor.deployment

    # --- Requests to the model

    async def _generate(self, request: Request) -> Generation | Response:
        path = request.url.path
        try:
            body = await request.body()
        except ClientDisconnect:
            return Response(status_code=499)  # nobody hears it
        deployment = self._deployment
        asked = read_asked(path, body, context=deployment.limits.max_model_len)
        model = asked.model or deployment.model
        if model not in (deployment.model, *self._adapters):
            raise BadRequestError(
                f"the model `{model}` does not exist", param="model", kind="NotFoundError", status=404
            )
        if self._surface.finds_sessions:
            session = asked.session_id or request.headers.get("x-session-id") or asked.xargs_session_id
            request.scope.setdefault("state", {})[SESSION] = session
        now = self._conductor.now
        answer = Answer(path, self._id(request, asked), model, int(self._conductor.epoch + now))
        return Generation(
            asked,
            answer=answer,
            wanted=wanted(
                asked,
                at=now,
                path=path,
                request_id=answer.request_id,
                priority=self._priority(request, asked),
                adapter=None if model == deployment.model else model,
                context=deployment.limits.max_model_len,
                cuts=self._surface.cuts_outputs,
            ),
            conductor=self._conductor,
            surface=self._surface,
        )

    def _id(self, request: Request, asked: Asked) -> str:
        """Return vLLM's id; a client's header counts though it is empty."""
        path = request.url.path
        told = request.headers.get("x-request-id")
        if told is None and (path == CHAT or self._surface.names_completions):
            told = asked.request_id
        return _PREFIXES[path] + (uuid.uuid4().hex if told is None else told)

    def _priority(self, request: Request, asked: Asked) -> int:
        told = request.headers.get("x-vllm-priority", "") if self._surface.heeds_priority_header else ""
        return int(told) if _INTEGER.fullmatch(told) else asked.priority

    async def _bad_request(self, _: Request, bad: Exception) -> Response:
        if not isinstance(bad, BadRequestError):
            raise bad
        told = error(self._surface, str(bad), kind=bad.kind, code=bad.status, param=bad.param)
        return JSONResponse(told, status_code=bad.status)

    async def _no_such_path(self, _: Request, missing: Exception) -> Response:
        if not isinstance(missing, HTTPException):
            raise missing
        return JSONResponse({"detail": missing.detail}, missing.status_code, headers=missing.headers)

    # --- What the server tells of itself

    async def _metrics(self, _: Request) -> Response:
        if self._control.scrape_delay_s:
            await self._conductor.wait(self._control.scrape_delay_s)
        if self._control.scrape_fails:
            return Response("Internal Server Error", status_code=500, media_type="text/plain")
        return Response(self._exposition.text(self._deployment), headers={"content-type": _TEXT_FORMAT})

    async def _models(self, _: Request) -> Response:
        deployment = self._deployment
        names = [(deployment.model, None), *((adapter, deployment.model) for adapter in self._adapters)]
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "vllm",
                "root": name,
                "parent": parent,
                "max_model_len": None if parent else deployment.limits.max_model_len,
            }
            for name, parent in names
        ]
        return JSONResponse({"object": "list", "data": cards})

    async def _version(self, _: Request) -> Response:
        return JSONResponse({"version": self._surface.release})

    async def _health(self, _: Request) -> Response:
        dead = any(engine.state is State.DEAD for engine in self._deployment.engines)
        return Response(status_code=200 if not dead else 503 if self._surface.is_unavailable else 500)

    # --- Development mode

    async def _is_sleeping(self, _: Request) -> Response:
        asleep = any(engine.state is State.SLEEPING for engine in self._deployment.engines)
        return JSONResponse({"is_sleeping": asleep})

    async def _sleep(self, request: Request) -> Response:
        level = request.query_params.get("level", "1")
        if level not in {"0", "1", "2"}:
            raise BadRequestError("a level is 0, 1 or 2", param="query.level", kind="Bad Request")
        self._conductor.act(self._control.sleep)
        return self._confirmed({"status": "sleeping", "level": int(level)})

    async def _wake_up(self, request: Request) -> Response:
        self._conductor.act(self._control.serve)
        return self._confirmed({"status": "awake", "tags": request.query_params.getlist("tags") or None})

    def _confirmed(self, told: dict[str, Any]) -> Response:
        return JSONResponse(told) if self._surface.confirms_sleep else Response()

    async def _reset_prefix_cache(self, _: Request) -> Response:
        self._conductor.act(self._control.forget_prefixes)
        return self._confirmed({"success": True})

    async def _server_info(self, request: Request) -> Response:
        wanted_format = request.query_params.get("config_format", "text")
        if self._surface.tells_json and wanted_format not in {"text", "json"}:
            raise BadRequestError("a format is text or json", param="query.config_format", kind="Bad Request")
        deployment = self._deployment
        if wanted_format == "text" or not self._surface.tells_json:
            # The text of a real one tells no slots either.
            text = f"model='{deployment.model}', max_seq_len={deployment.limits.max_model_len}"
            return JSONResponse({"vllm_config": text})
        limits = asdict(deployment.limits)
        context = limits.pop("max_model_len")
        cache = {name: limits.pop(name) for name in ("num_gpu_blocks", "block_size")}
        cache["enable_prefix_caching"] = limits.pop("prefix_caching")
        limits["enable_chunked_prefill"] = limits.pop("chunked_prefill")
        limits["policy"] = "priority" if limits.pop("priority_scheduling") else "fcfs"
        told = {
            "model_config": {"served_model_name": deployment.model, "max_model_len": context},
            "scheduler_config": limits,
            "cache_config": cache,
            "parallel_config": {"data_parallel_size": len(deployment.engines)},
        }
        return JSONResponse({"vllm_config": told})
