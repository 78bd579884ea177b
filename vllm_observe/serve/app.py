"""The two applications: what Prometheus scrapes, and what people and scripts ask."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import cast

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vllm_observe import logs
from vllm_observe.serve.auth import Credentials, Gate, Refusal
from vllm_observe.serve.render import Format, negotiate

__all__ = ["admin_app", "json_response", "metrics_app"]

#: A page below this many bytes fits one packet or nearly so: compressing it saves nothing.
_GZIP_FROM_BYTES = 1024
#: Makes a page an eighth of its size; the highest level takes seven times as long for a tenth.
_GZIP_LEVEL = 3

_log = logs.EventLog("serve")


def metrics_app(
    *,
    page: Callable[[Format], bytes],
    ready: Callable[[], str | None],
    healthy: Callable[[], bool] = lambda: True,
    auth: Credentials,
) -> Starlette:
    """Serve ``/metrics``, ``/healthz`` and ``/readyz``, and nothing else.

    Args:
        page: renders the exposition; called in a worker thread, by several at a time.
        ready: ``None``, or in one sentence why the sidecar is not ready; must not block.
        healthy: whether the process can do its work; must not block.
        auth: what opens ``/metrics``. The probes are open: a kubelet has no credentials.
    """

    def metrics(request: Request) -> Response:  # a plain function: starlette runs it in a thread
        format_ = negotiate(_joined(request.headers, "accept"))
        body = page(format_)
        headers = {"Content-Type": format_.content_type, "Vary": "Accept, Accept-Encoding"}
        if len(body) >= _GZIP_FROM_BYTES and _accepts_gzip(_joined(request.headers, "accept-encoding") or ""):
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers)

    async def healthz(_: Request) -> Response:
        return _probe(None if healthy() else "unhealthy")

    async def readyz(_: Request) -> Response:
        return _probe(ready())

    routes = [Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    gate = Middleware(Gate, credentials=auth, refuse=_plain_refusal, open_paths={"/healthz", "/readyz"})
    return _app(routes, gate=gate, refuse=_plain_refusal)


def admin_app(
    *, state: Callable[[], object], auth: Credentials, extra_routes: Sequence[BaseRoute] = ()
) -> Starlette:
    """Serve the admin API under ``/api/v1``, and what other parts add to it.

    Without credentials it answers only who asks for this machine by a loopback name, since then
    the loopback address is all that protects it.

    Args:
        state: what ``status`` shows, in types that msgspec can write; called in a worker thread.
        auth: what opens every path.
        extra_routes: routes beside those of this module. An endpoint refuses with starlette's
            HTTPException, whose detail is a sentence for the person who asked.
    """

    def show_state(_: Request) -> Response:
        return json_response(state())

    gate = Middleware(Gate, credentials=auth, refuse=_json_refusal, local_only=True)
    return _app([Route("/api/v1/state", show_state), *extra_routes], gate=gate, refuse=_json_refusal)


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Answer in JSON; a number that JSON cannot hold, such as NaN, is null."""
    return Response(
        msgspec.json.encode(content),
        status,
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", **(headers or {})},
        media_type="application/json",
    )


def _app(
    routes: Sequence[BaseRoute], *, gate: Middleware, refuse: Callable[[Refusal], Response]
) -> Starlette:
    async def refused(_: Request, error: Exception) -> Response:
        told = cast("HTTPException", error)  # what the handler is registered for
        return refuse(Refusal(told.status_code, told.detail, dict(told.headers or {})))

    app = Starlette(
        routes=routes,
        middleware=[gate, Middleware(_Shield, refuse=refuse)],
        exception_handlers={HTTPException: refused},
    )
    app.router.redirect_slashes = False  # a scraper that follows no redirect would call us down
    return app


class _Shield:
    """ASGI middleware that turns a fault of ours into a 500 and one event in the log."""

    def __init__(self, app: ASGIApp, *, refuse: Callable[[Refusal], Response]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next request must be served
            _log.exception("request failed", error, path=scope["path"][:100])
            if not started:
                await self._refuse(Refusal(500, "a fault of the sidecar's own; its log says more"))(
                    scope, receive, send
                )


def _plain_refusal(refusal: Refusal) -> Response:
    return PlainTextResponse(refusal.message + "\n", refusal.status, headers=refusal.headers)


def _json_refusal(refusal: Refusal) -> Response:
    code = HTTPStatus(refusal.status).name.lower()
    content = {"error": {"code": code, "message": refusal.message}}
    return json_response(content, refusal.status, refusal.headers)


def _probe(reason: str | None) -> Response:
    if reason is None:
        return PlainTextResponse("ok\n")
    return PlainTextResponse(" ".join(reason.split()) + "\n", 503)


def _joined(headers: Headers, name: str) -> str | None:
    """The value of a header that may be given in several lines."""
    return ", ".join(headers.getlist(name)) or None


def _accepts_gzip(accept_encoding: str) -> bool:
    weights = dict(_weight(part) for part in accept_encoding.lower().split(","))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weight(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, float(parameter[2:])
            except ValueError:
                return name, 0.0
    return name, 1.0
